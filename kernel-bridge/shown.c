// Compares by size first and then by SHA-256, so that a cell with figures and files pays for the hash of
// a figure only when there is a file of exactly its size. What a cell shows is bounded by its budget.
#include "kernel-bridge/shown.h"

#include "common/ck_base64.h"
#include "common/ck_clean.h"
#include "common/ck_crypto.h"
#include "kernel-bridge/jscan.h"

#include <stdio.h>

#define RESULT (-1)

struct file {
    int64_t size; // -1 = no picture
    char sha256[CK_SHA256_HEX];
};

static struct file file_of(struct ck_slice artifact)
{
    struct file f = {.size = -1};
    struct ck_slice v;
    char mime[160];
    if (!jscan_field_str(artifact, "mime", mime, sizeof mime) || strncmp(mime, "image/", 6) != 0 ||
        !jscan_field_str(artifact, "sha256", f.sha256, sizeof f.sha256) || !jscan_field(artifact, "size", &v) ||
        !jscan_int(v, &f.size))
        f.size = -1;
    return f;
}

static bool any_of_size(const struct file *files, unsigned n, size_t size)
{
    for (unsigned i = 0; i < n; i++)
        if (files[i].size >= 0 && (size_t)files[i].size == size)
            return true;
    return false;
}

static void mark(struct artifacts *a, struct file *files, struct ck_slice bytes, int display)
{
    uint8_t sum[CK_SHA256_LEN];
    char hex[CK_SHA256_HEX];
    if (ck_sha256(bytes, sum))
        return;
    ck_hex(sum, sizeof sum, hex);
    for (unsigned i = 0; i < a->n; i++) {
        struct ck_buf *b = &a->json[i];
        if (files[i].size < 0 || (size_t)files[i].size != bytes.n || strcmp(files[i].sha256, hex) != 0)
            continue;
        files[i].size = -1; // once is enough
        size_t before = b->n--; // its brace
        if (display == RESULT ? ck_buf_add_str(b, ",\"display\":\"result\"}") : ck_buf_printf(b, ",\"display\":%d}", display))
            b->p[(b->n = before) - 1] = '}';
    }
}

// Every picture of one bundle.
static void look(struct ck_slice bundle, struct artifacts *a, struct file *files, int display)
{
    struct jscan it = jscan_open(bundle);
    struct ck_slice key, value;
    while (jscan_next(&it, &key, &value)) {
        CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT, raw = CK_BUF_INIT;
        if (key.n <= 6 || memcmp(key.p, "image/", 6) != 0 || jscan_text(value, &text) || !text.n)
            continue;
        if (ck_slice_is(key, "image/svg+xml")) {
            if (any_of_size(files, a->n, text.n))
                mark(a, files, ck_buf_slice(&text), display);
        } else if (any_of_size(files, a->n, ck_base64_length((const char *)text.p, text.n)) &&
                   !ck_base64_decode((const char *)text.p, text.n, &raw)) {
            mark(a, files, ck_buf_slice(&raw), display);
        }
    }
}

void shown_mark(const struct cout *c, struct artifacts *a)
{
    struct file files[ARTIFACTS_MAX];
    bool any = false;
    size_t result = c->displays;
    int index = 0;
    for (unsigned i = 0; i < a->n; i++) {
        files[i] = file_of(ck_buf_slice(&a->json[i]));
        any |= files[i].size > 0;
    }
    for (size_t i = 0; any && i < c->displays; i++)
        if (c->display[i].is_result)
            result = i; // as in the finished cell: the last one
    for (size_t i = 0; any && i < c->displays; i++) {
        look(ck_buf_slice(&c->display[i].data), a, files, i == result ? RESULT : index);
        index += i != result;
    }
}
