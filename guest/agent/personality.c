// Reads a personalise request. Pure. Strict, because what passes here becomes file contents.
#include "guest/agent/personalise.h"

#include "common/ck_crypto.h"
#include "common/ck_json.h"

#include <string.h>

static bool valid_hostname(const char *s)
{
    size_t n = strlen(s);
    if (n < 1 || n > 63 || s[0] == '-' || s[n - 1] == '-')
        return false;
    return strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == n;
}

int ag_personality_parse(const json_t *header, struct ag_personality *out, struct ck_err *err)
{
    struct ck_err bad = CK_ERR_INIT;
    const char *key = ck_json_str(header, "key", "", &bad);
    out->hostname = ck_json_str(header, "hostname", "", &bad);
    out->machine_id = ck_json_str(header, "machine_id", "", &bad);
    out->time_us = ck_json_int(header, "time_us", 0, &bad);
    uint8_t id[16];
    if (bad.status) {
        *err = bad;
        return -1;
    }
    if (strlen(key) != 2 * AG_KEY_LEN || ck_unhex(key, 2 * AG_KEY_LEN, out->key) < 0)
        return ck_fail(err, 400, "bad_field", "field \"key\" must be 64 hex digits");
    if (strlen(out->machine_id) != 32 || ck_unhex(out->machine_id, 32, id) < 0)
        return ck_fail(err, 400, "bad_field", "field \"machine_id\" must be 32 hex digits");
    if (!valid_hostname(out->hostname))
        return ck_fail(err, 400, "bad_field", "field \"hostname\" must be 1 to 63 of a-z, 0-9 and -");
    if (out->time_us <= 0)
        return ck_fail(err, 400, "bad_field", "field \"time_us\" must be microseconds since 1970");
    return 0;
}
