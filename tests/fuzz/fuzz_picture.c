// Any bytes as a picture, as base64, and as the answer of a guest that was asked to shrink two pictures.
#include "gateway/picture.h"

#include "common/ck_base64.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void base64(struct ck_slice s)
{
    struct ck_buf raw = CK_BUF_INIT, text = CK_BUF_INIT, again = CK_BUF_INIT;
    if (!ck_base64_decode((const char *)s.p, s.n, &raw)) {
        const void *bytes = raw.p ? (const void *)raw.p : "";
        if (ck_base64_length((const char *)s.p, s.n) != raw.n || ck_base64_add(&text, bytes, raw.n) ||
            ck_base64_decode((const char *)text.p, text.n, &again) || again.n != raw.n ||
            (again.p && memcmp(again.p, bytes, raw.n) != 0))
            abort();
    }
    ck_buf_free(&raw);
    ck_buf_free(&text);
    ck_buf_free(&again);
}

static void answer(struct ck_slice s)
{
    static const uint8_t png[24] = {0x89, 'P', 'N', 'G', 13, 10, 26, 10, 0, 0, 0, 13, 'I', 'H', 'D', 'R', 0, 0, 9, 0, 0, 0, 9, 0};
    struct pictures set = {.edge = 100};
    for (int i = 0; i < 2; i++)
        if (pictures_add(&set, ck_slice(png, sizeof png), (struct picture){.display = i}) != 1)
            abort();
    pictures_take(&set, s);
    for (size_t i = 0; i < set.n; i++) {
        struct picture_size is;
        if (picture_look(ck_buf_slice(&set.p[i].bytes), &is) != PICTURE_PNG || set.p[i].is.width > 100 ||
            set.p[i].is.height > 100 || (set.p[i].is.width && set.p[i].is.width != is.width))
            abort();
    }
    pictures_free(&set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct picture_size s;
    if (!size)
        return 0;
    struct ck_slice rest = ck_slice(data + 1, size - 1);
    if (data[0] % 3 == 0 && (picture_look(rest, &s) != PICTURE_NONE) != (s.width && s.height))
        abort();
    if (data[0] % 3 == 1)
        base64(rest);
    if (data[0] % 3 == 2)
        answer(rest);
    return 0;
}
