// Requests to the guest agent as bytes from the wire: framing and JSON of a correctly signed message
// (the fuzzer could not forge the signature), then what the main-thread operations read of it.
#include "guest/agent/personalise.h"
#include "guest/agent/spawn.h"
#include "guest/agent/wire.h"
#include "common/ck_crypto.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t key[AG_KEY_LEN];
    size_t split = size ? data[0] * size / 256 : 0;
    struct ck_slice parts[] = {ck_slice(data, size - split), ck_slice(data + size - split, split)};
    struct ag_wire w = {.in_n = 0};
    uint8_t sig[AG_SIG_LEN];
    json_t *h = NULL;
    if (ag_wire_open(&w, ck_slice(data, size < 32 ? size : 32), parts[0], parts[1], &h) != 1)
        abort(); // 32 bytes of input were taken for a signature
    ck_hmac_sha256(ck_slice(key, sizeof key), parts, 2, sig);
    if (ag_wire_open(&w, ck_slice(sig, sizeof sig), parts[0], parts[1], &h) != 0)
        return 0;
    if (json_integer_value(json_object_get(h, "n")) != w.in_n || w.in_n <= 0)
        abort();
    struct ck_err err = CK_ERR_INIT;
    struct ag_personality p;
    if (ag_personality_parse(h, &p, &err) == 0 && (strlen(p.machine_id) != 32 || !p.hostname[0]))
        abort();
    const json_t *env = json_object_get(h, "env");
    ag_env_free(ag_env_make(json_is_object(env) ? env : NULL, &err));
    json_decref(h);
    return 0;
}
