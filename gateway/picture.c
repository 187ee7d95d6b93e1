// Reads the headers of PNG and JPEG, and keeps count of the pictures of a cell. Decodes nothing.
#include "gateway/picture.h"

#include "common/ck_base64.h"
#include "common/ck_clean.h"

#include <stdlib.h>
#include <string.h>

static uint32_t be16(const uint8_t *p) { return (uint32_t)p[0] << 8 | p[1]; }
static uint32_t be32(const uint8_t *p) { return be16(p) << 16 | be16(p + 2); }

// IHDR is always the first chunk.
static bool png_size(struct ck_slice b, struct picture_size *out)
{
    static const uint8_t begin[16] = {0x89, 'P', 'N', 'G', 13, 10, 26, 10, 0, 0, 0, 13, 'I', 'H', 'D', 'R'};
    if (b.n < 24 || memcmp(b.p, begin, sizeof begin) != 0)
        return false;
    *out = (struct picture_size){be32(b.p + 16), be32(b.p + 20)};
    return true;
}

// A frame header (SOF): every C0..CF but DHT, JPG and DAC.
static bool is_frame(uint8_t marker)
{
    return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

// Segment by segment to the frame header, which comes before the first scan.
static bool jpeg_size(struct ck_slice b, struct picture_size *out)
{
    size_t i = 2;
    if (b.n < 4 || b.p[0] != 0xff || b.p[1] != 0xd8)
        return false;
    while (i + 4 <= b.n && b.p[i] == 0xff) {
        uint8_t marker = b.p[i + 1];
        if (marker == 0xff) { // fill
            i++;
            continue;
        }
        uint32_t length = be16(b.p + i + 2);
        if (length < 2 || marker == 0xda || marker == 0xd9)
            return false;
        if (is_frame(marker)) {
            if (length < 7 || i + 9 > b.n)
                return false;
            *out = (struct picture_size){be16(b.p + i + 7), be16(b.p + i + 5)};
            return true;
        }
        i += 2 + length;
    }
    return false;
}

enum picture_kind picture_look(struct ck_slice bytes, struct picture_size *out)
{
    struct picture_size s = {0, 0};
    enum picture_kind kind = png_size(bytes, &s) ? PICTURE_PNG : jpeg_size(bytes, &s) ? PICTURE_JPEG : PICTURE_NONE;
    if (!s.width || !s.height)
        kind = PICTURE_NONE;
    *out = kind == PICTURE_NONE ? (struct picture_size){0, 0} : s;
    return kind;
}

static bool larger(struct picture_size s, uint32_t edge) { return s.width > edge || s.height > edge; }

int pictures_add(struct pictures *set, struct ck_slice bytes, struct picture like)
{
    like.kind = picture_look(bytes, &like.was);
    if (like.kind == PICTURE_NONE || !larger(like.was, set->edge))
        return 0;
    like.bytes = (struct ck_buf)CK_BUF_INIT;
    if (set->n == PICTURES_MAX || set->bytes + bytes.n > PICTURES_BYTES_MAX || ck_buf_add(&like.bytes, bytes.p, bytes.n))
        return -1;
    set->bytes += bytes.n;
    set->p[set->n++] = like;
    return 1;
}

static void find_in(struct pictures *set, json_t *bundle, int display)
{
    static const char *const types[] = {"image/png", "image/jpeg"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const json_t *v = json_object_get(bundle, types[i]);
        CK_CLEAN_BUF struct ck_buf b = {.cap = PICTURES_BYTES_MAX};
        if (json_is_string(v) && !ck_base64_decode(json_string_value(v), json_string_length(v), &b))
            pictures_add(set, ck_buf_slice(&b),
                         (struct picture){.bundle = bundle, .type = types[i], .display = display});
    }
}

void pictures_find(struct pictures *set, json_t *cell)
{
    size_t i;
    json_t *d;
    json_array_foreach (json_object_get(cell, "displays"), i, d)
        find_in(set, json_object_get(d, "data"), (int)i);
    find_in(set, json_object_get(cell, "result"), PICTURE_NOT_DISPLAYED);
}

void pictures_free(struct pictures *set)
{
    for (size_t i = 0; i < set->n; i++)
        ck_buf_free(&set->p[i].bytes);
    *set = (struct pictures){.n = 0};
}

int pictures_pack(const struct pictures *set, struct ck_buf *out)
{
    for (size_t i = 0; i < set->n; i++) {
        size_t n = set->p[i].bytes.n;
        uint8_t length[4] = {(uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n};
        if (ck_buf_add(out, length, 4) || ck_buf_add(out, set->p[i].bytes.p, n))
            return -1;
    }
    return 0;
}

void pictures_take(struct pictures *set, struct ck_slice answer)
{
    size_t at = 0;
    for (size_t i = 0; i < set->n && answer.n - at >= 4; i++) {
        struct picture *p = &set->p[i];
        struct picture_size is;
        size_t n = be32(answer.p + at);
        at += 4;
        if (n > answer.n - at)
            return;
        struct ck_slice small = ck_slice(answer.p + at, n);
        at += n;
        if (picture_look(small, &is) != p->kind || larger(is, set->edge))
            continue;
        struct ck_buf b = CK_BUF_INIT;
        if (ck_buf_add(&b, small.p, small.n))
            continue;
        ck_buf_free(&p->bytes);
        p->bytes = b;
        p->is = is;
    }
}

static int put_back(struct picture *p)
{
    CK_CLEAN_BUF struct ck_buf text = CK_BUF_INIT;
    if (ck_base64_add(&text, p->bytes.p, p->bytes.n))
        return -1;
    json_t *v = json_stringn((const char *)text.p, text.n);
    return v && !json_object_set_new(p->bundle, p->type, v) ? 0 : -1;
}

int pictures_apply(struct pictures *set, json_t *cell, const char *why_whole)
{
    json_t *images = json_array();
    int bad = json_object_set_new(cell, "images", images);
    for (size_t i = 0; i < set->n && !bad; i++) {
        struct picture *p = &set->p[i];
        json_t *o = json_pack("{s:s,s:[i,i]}", "type", p->type, "from", (int)p->was.width, (int)p->was.height);
        json_object_set_new(o, "display",
                            p->display == PICTURE_NOT_DISPLAYED ? json_string("result") : json_integer(p->display));
        if (p->is.width && !put_back(p)) {
            json_object_set_new(o, "to", json_pack("[i,i]", (int)p->is.width, (int)p->is.height));
        } else {
            json_object_set_new(o, "to", json_null());
            json_object_set_new(o, "message", json_string(why_whole));
        }
        bad = json_array_append_new(images, o);
    }
    return bad ? -1 : 0;
}
