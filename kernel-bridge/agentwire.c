// The agent's messages. The agent runs in the guest, where a stranger's code may have become root:
// its answers are read as carefully as the kernel's. Must never keep or print a key.
#include "kernel-bridge/agentwire.h"

#include "common/ck_json.h"

int aw_sign(const uint8_t key[AW_KEY_LEN], struct ck_slice header, struct ck_slice payload, uint8_t *sig)
{
    struct ck_slice parts[2] = {header, payload};
    return ck_hmac_sha256(ck_slice(key, AW_KEY_LEN), parts, 2, sig);
}

int aw_parse(const struct ck_slice *p, size_t n, const uint8_t key[AW_KEY_LEN], int64_t *last_n, struct aw_msg *out,
             struct ck_err *err)
{
    uint8_t want[CK_SHA256_LEN];
    *out = (struct aw_msg){.header = NULL};
    if (n < 2 || n > 3 || p[0].n != CK_SHA256_LEN || p[1].n > AW_ANSWER_HEADER_MAX ||
        (n == 3 && p[2].n > AW_PAYLOAD_MAX))
        return ck_fail(err, 400, "bad_message", "agent message with wrong parts or sizes");
    out->payload = n == 3 ? p[2] : ck_slice("", 0);
    if (aw_sign(key, p[1], out->payload, want) || !ck_equal_const_time(want, p[0].p, sizeof want))
        return ck_fail(err, 400, "bad_signature", "agent message with a wrong signature");
    out->header = ck_json_parse_object(p[1].p, p[1].n, false, err);
    if (!out->header)
        return -1;
    const json_t *number = json_object_get(out->header, "n"), *re = json_object_get(out->header, "re");
    if (!json_is_integer(number))
        return ck_fail(err, 400, "bad_message", "agent message without a number");
    if (json_integer_value(number) <= *last_n)
        return ck_fail(err, 400, "replayed", "agent message with a number seen before");
    *last_n = json_integer_value(number);
    out->is_answer = json_is_integer(re);
    out->rid = json_integer_value(re);
    out->ev = out->is_answer ? NULL : ck_json_str(out->header, "ev", NULL, NULL);
    if (!out->is_answer && !out->ev)
        return ck_fail(err, 400, "bad_message", "agent message that is neither an answer nor a push");
    return 0;
}

void aw_free(struct aw_msg *m)
{
    json_decref(m->header);
    m->header = NULL;
}

bool aw_error(const json_t *header, struct ck_err *err)
{
    const json_t *e = ck_json_obj(header, "error", NULL);
    if (!e)
        return false;
    int64_t status = ck_json_int(e, "status", 500, NULL);
    ck_fail(err, status >= 400 && status <= 599 ? (int)status : 500, ck_json_str(e, "reason", "agent_error", NULL),
            "%s", ck_json_str(e, "message", "the guest's agent failed without saying why", NULL));
    return true;
}
