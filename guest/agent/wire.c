// Signing and verification. The signature is checked before a single byte is parsed: whatever runs
// in the guest may connect to the agent's port, and must get no further than this file.
#include "guest/agent/wire.h"

#include "common/ck_crypto.h"
#include "common/ck_json.h"

#include <string.h>

void ag_wire_rekey(struct ag_wire *w, const uint8_t *key)
{
    memcpy(w->key, key, AG_KEY_LEN);
    w->in_n = w->out_n = 0;
}

static int drop(struct ag_wire *w)
{
    w->dropped++;
    return 1;
}

static int sign(const struct ag_wire *w, struct ck_slice header, struct ck_slice payload, uint8_t *out)
{
    struct ck_slice parts[] = {header, payload};
    return ck_hmac_sha256(ck_slice(w->key, AG_KEY_LEN), parts, 2, out);
}

int ag_wire_open(struct ag_wire *w, struct ck_slice sig, struct ck_slice header, struct ck_slice payload,
                 json_t **out)
{
    uint8_t want[AG_SIG_LEN];
    if (sig.n != AG_SIG_LEN || header.n > AG_REQUEST_HEADER_MAX || payload.n > AG_PAYLOAD_MAX)
        return drop(w);
    if (sign(w, header, payload, want) < 0 || !ck_equal_const_time(want, sig.p, AG_SIG_LEN))
        return drop(w);
    json_t *h = ck_json_parse_object(header.p, header.n, false, NULL);
    json_int_t n = json_integer_value(json_object_get(h, "n"));
    if (!h || n <= w->in_n) {
        json_decref(h);
        return drop(w);
    }
    w->in_n = n;
    *out = h;
    return 0;
}

int ag_wire_seal(struct ag_wire *w, json_t *header, struct ck_slice payload, struct ck_buf *text, uint8_t *sig)
{
    size_t before = text->n;
    if (payload.n > AG_PAYLOAD_MAX || json_object_set_new(header, "n", json_integer(w->out_n + 1)) < 0)
        return -1;
    if (ck_json_dump(header, text) < 0 || text->n - before > AG_ANSWER_HEADER_MAX ||
        sign(w, ck_slice(text->p + before, text->n - before), payload, sig) < 0) {
        text->n = before;
        return -1;
    }
    w->out_n++;
    return 0;
}
