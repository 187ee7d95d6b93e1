// The agent's small readers: paths, names, file types, the kernel's log, the zygote's messages.
#include "common/ck_name.h"
#include "guest/agent/bootargs.h"
#include "guest/agent/kmsg.h"
#include "guest/agent/mime.h"
#include "guest/agent/paths.h"
#include "guest/agent/zygote.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_path(const char *text)
{
    char out[AG_PATH_MAX], again[AG_PATH_MAX];
    struct ck_err err = CK_ERR_INIT;
    if (ag_path_clean(text, out, &err) < 0)
        return;
    // cleaning twice is cleaning once, and nothing clean climbs
    if (ag_path_clean(out, again, &err) < 0 || strcmp(out, again) != 0 || strstr(out, "/../") || strstr(out, "//"))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ag_bootargs args;
    struct ag_zygote_message m;
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = 0;
    check_path(text);
    json_t *o = json_object();
    ck_name_set(o, "name", text);
    json_decref(o);
    ag_mime_guess(text, data, size < AG_MIME_HEAD ? size : AG_MIME_HEAD);
    ag_bootargs_parse((const char *)data, size, &args, NULL);
    if (ag_kmsg_victim((const char *)data, size) < 0)
        abort();
    ag_zygote_parse(ck_slice(data, size), &m);
    free(text);
    return 0;
}
