// Artifacts as JSON. Names come from the guest: they are encoded, never interpreted.
#include "kernel-bridge/artifacts.h"

#include "common/ck_json.h"
#include "common/ck_name.h"
#include "kernel-bridge/fileinfo.h"

#include <inttypes.h>

int artifacts_encode_path(const char *path, struct ck_buf *out)
{
    static const char keep[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
    for (const char *p = path; *p;) {
        size_t plain = strspn(p, keep);
        if (ck_buf_add(out, p, plain))
            return -1;
        p += plain;
        if (*p && ck_buf_printf(out, "%%%02X", (unsigned char)*p++))
            return -1;
    }
    return 0;
}

static int add_field(struct ck_buf *b, const char *key, const char *value)
{
    return ck_buf_printf(b, "\"%s\":", key) || ck_buf_add_json_str(b, value, strlen(value));
}

static int one(const json_t *f, const char *session_id, const char *url_prefix, struct ck_buf *out)
{
    char path[CK_NAME_MAX]; // bytes; in the JSON they become UTF-8, in the URL they stay what they are
    const char *mime = ck_json_str(f, "mime", "application/octet-stream", NULL);
    const char *change = ck_json_str(f, "change", "", NULL), *sha = ck_json_str(f, "sha256", NULL, NULL);
    int64_t size = ck_json_int(f, "size", -1, NULL);
    bool known = !strcmp(change, "created") || !strcmp(change, "changed");
    if (ck_name_get(f, "path", path, NULL) || !fileinfo_path_ok(path) || !known || size < 0)
        return -1;
    if (!fileinfo_mime_ok(mime))
        mime = "application/octet-stream";
    if (sha && !fileinfo_sha256_ok(sha))
        sha = NULL;
    CK_CLEAN_BUF struct ck_buf url = CK_BUF_INIT;
    if (ck_buf_printf(&url, "%s/v1/sessions/%s/files", url_prefix, session_id) || artifacts_encode_path(path, &url))
        return -1;
    int bad = ck_buf_add_str(out, "{") || add_field(out, "path", path) || ck_buf_add_str(out, ",") ||
              add_field(out, "name", strrchr(path, '/') + 1) || ck_buf_add_str(out, ",") ||
              add_field(out, "change", change) || ck_buf_add_str(out, ",") || add_field(out, "mime", mime) ||
              ck_buf_printf(out, ",\"size\":%" PRId64 ",\"sha256\":", size) ||
              (sha ? ck_buf_add_json_str(out, sha, strlen(sha)) : ck_buf_add_str(out, "null")) ||
              (json_is_true(json_object_get(f, "partial")) && ck_buf_add_str(out, ",\"partial\":true")) ||
              ck_buf_add_str(out, ",\"url\":") || ck_buf_add_json_str(out, (const char *)url.p, url.n);
    return bad || ck_buf_add_str(out, "}") ? -1 : 0;
}

static bool by_client(const json_t *f, const struct written *w)
{
    char path[CK_NAME_MAX];
    return w && !ck_name_get(f, "path", path, NULL) && written_has(w, path, ck_json_int(f, "size", -1, NULL), ck_json_int(f, "mtime_ns", -1, NULL));
}

void artifacts_read(const json_t *answer, const struct artifacts_for *how, struct artifacts *out)
{
    const json_t *files = json_object_get(answer, "files");
    unsigned max = how->max < ARTIFACTS_MAX ? how->max : ARTIFACTS_MAX;
    int64_t not_theirs = 0;
    size_t i;
    json_t *f;
    json_array_foreach(files, i, f) {
        if (by_client(f, how->written)) {
            not_theirs++;
        } else if (ck_json_int(f, "size", -1, NULL) > how->bytes) {
            out->too_large++;
        } else if (out->n < max) {
            if (one(f, how->session_id, how->url_prefix, &out->json[out->n]))
                ck_buf_free(&out->json[out->n]);
            else
                out->n++;
        }
    }
    out->total = ck_json_int(answer, "count", (int64_t)json_array_size(files), NULL) - not_theirs;
    if (out->total < out->n)
        out->total = out->n;
    out->too_many = out->total > (int64_t)out->n + out->too_large;
}

int artifacts_array(const struct artifacts *a, struct ck_buf *out)
{
    int bad = ck_buf_add_str(out, "[");
    for (unsigned i = 0; !bad && i < a->n; i++)
        bad = (i && ck_buf_add_str(out, ",")) || ck_buf_add(out, a->json[i].p, a->json[i].n);
    return bad || ck_buf_add_str(out, "]") ? -1 : 0;
}

void artifacts_free(struct artifacts *a)
{
    for (unsigned i = 0; i < a->n; i++)
        ck_buf_free(&a->json[i]);
    *a = (struct artifacts){.n = 0};
}
