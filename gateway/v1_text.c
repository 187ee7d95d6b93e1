// Bounded keeper of a command's output and its splitting into whole UTF-8 characters.
#include "gateway/v1_text.h"

void v1_text_init(struct v1_text *t, size_t keep)
{
    memset(t, 0, sizeof *t);
    t->keep = keep;
}

void v1_text_free(struct v1_text *t) { ck_buf_free(&t->kept); }

// How many bytes at the end of p are the beginning of a character that needs more of them (0..3).
static size_t unfinished(const uint8_t *p, size_t n)
{
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        uint8_t c = p[n - back];
        if ((c & 0xc0) == 0x80)
            continue;
        size_t want = c >= 0xf0 && c <= 0xf4 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 1;
        return c <= 0xf4 && want > back ? back : 0;
    }
    return 0;
}

static int keep(struct v1_text *t, struct ck_slice piece)
{
    size_t room = t->keep - t->kept.n, n = piece.n < room ? piece.n : room;
    t->dropped += piece.n - n;
    return ck_buf_add(&t->kept, piece.p, n);
}

int v1_text_take(struct v1_text *t, struct ck_slice piece, bool flush, struct ck_buf *json)
{
    if (keep(t, piece))
        return -1;
    if (!json)
        return 0;
    struct ck_buf all = CK_BUF_INIT;
    int rc = ck_buf_add(&all, t->tail, t->tail_n) || ck_buf_add(&all, piece.p, piece.n) ? -1 : 0;
    size_t cut = flush || rc ? 0 : unfinished(all.p, all.n);
    if (!rc) {
        t->tail_n = cut;
        if (cut)
            memcpy(t->tail, all.p + all.n - cut, cut);
        if (all.n > cut)
            rc = ck_buf_add_json_str(json, (const char *)all.p, all.n - cut) ? -1 : 1;
    }
    ck_buf_free(&all);
    return rc;
}
