// Reads one message of the zygote. Pure and strict: unknown messages are ignored by the caller.
#include "guest/agent/zygote.h"

#include "common/ck_json.h"

#include <stdio.h>
#include <string.h>

int ag_zygote_parse(struct ck_slice in, struct ag_zygote_message *out)
{
    static const char *const names[] = {"progress", "serving", "warm", "warmed", "failed"};
    struct ck_err err = CK_ERR_INIT;
    *out = (struct ag_zygote_message){.percent = 0};
    json_t *j = in.n <= AG_ZYGOTE_MESSAGE_MAX ? ck_json_parse_object(in.p, in.n, false, &err) : NULL;
    const char *name = ck_json_str(j, "event", "", &err), *text = ck_json_str(j, "text", "", &err);
    int64_t percent = ck_json_int(j, "percent", 0, &err);
    int rc = -1;
    for (int i = 0; !err.status && i < 5; i++)
        if (strcmp(name, names[i]) == 0) {
            out->kind = (enum ag_zygote_kind)i;
            rc = 0;
        }
    out->percent = percent < 0 ? 0 : percent > 100 ? 100 : (int)percent;
    snprintf(out->text, sizeof out->text, "%s", text);
    json_decref(j);
    return rc;
}
