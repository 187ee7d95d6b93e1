// The history of a paused session: what is written comes back, and damage is refused.
#include "kernel-bridge/evbuild.h"
#include "kernel-bridge/history.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CELL_A "11111111-1111-4111-8111-111111111111"
#define CELL_B "22222222-2222-4222-8222-222222222222"

static const struct ck_slice meta = {(const uint8_t *)"{\"a\":1}", 7};

struct parts {
    struct cellbook book;
    struct history h;
};

static void begin(struct parts *p, size_t cap)
{
    memset(p, 0, sizeof *p);
    p->h = (struct history){evlog_new(cap), cons_new(), &p->book};
}

static void end(struct parts *p)
{
    evlog_free(p->h.log);
    cons_free(p->h.cons);
    cellbook_free(&p->book);
}

static void put(struct parts *p, enum ev_kind kind, enum ev_class class, const char *cell, const char *session,
                size_t bytes)
{
    struct ev_tag tag = {kind, class, JW_SHELL, cell, session};
    char *fill = calloc(1, bytes + 1);
    memset(fill, 'x', bytes);
    struct ck_slice part = ck_slice(fill, bytes);
    evlog_append(p->h.log, &tag, ck_frame_encode(ck_slice_str("{}"), &part, 1));
    free(fill);
}

static void finish_cell(struct parts *p, const char *id, enum cell_status status)
{
    struct ck_blob *frame = evb_cell(evlog_next(p->h.log), 1, id, cell_status_name(status), ck_slice_str("{}"));
    struct ev_tag tag = {EV_CELL, EV_OTHER, JW_SHELL, id, ""};
    cellbook_add(&p->book, id, status, frame);
    evlog_append(p->h.log, &tag, frame);
}

static void write_out(const struct parts *p, struct ck_buf *out)
{
    struct hist_image image;
    struct ck_err err = CK_ERR_INIT;
    assert_int_equal(hist_encode(&p->h, meta, &image, &err), 0);
    assert_int_equal(hist_seal(&image, &err), 0);
    assert_int_equal(ck_buf_add(out, image.head.p, image.head.n), 0);
    for (size_t i = 0; i < image.frames; i++)
        assert_int_equal(ck_buf_add(out, image.frame[i]->p, image.frame[i]->n), 0);
    hist_image_free(&image);
}

static void read_back(struct ck_slice bytes, struct parts *p)
{
    struct ck_err err = CK_ERR_INIT;
    struct ck_slice m;
    if (hist_decode(bytes, &p->h, &m, &err))
        fail_msg("%s", err.text);
    assert_true(m.n == meta.n && !memcmp(m.p, meta.p, m.n));
}

static void same_log(const struct evlog *a, const struct evlog *b)
{
    struct evlog_slot x, y;
    assert_int_equal(evlog_first(a), evlog_first(b));
    assert_int_equal(evlog_next(a), evlog_next(b));
    assert_int_equal(evlog_lead_bytes(a), evlog_lead_bytes(b));
    assert_int_equal(evlog_bytes(a), evlog_bytes(b));
    for (uint64_t seq = evlog_first(a); evlog_slot(a, seq, &x); seq++) {
        assert_int_equal(evlog_slot(b, seq, &y), 1);
        assert_int_equal(!x.frame, !y.frame);
        assert_int_equal(x.dropped_bytes, y.dropped_bytes);
        if (!x.frame || !y.frame)
            continue;
        assert_true(x.tag.kind == y.tag.kind && x.tag.class == y.tag.class && x.tag.channel == y.tag.channel);
        assert_string_equal(x.tag.cell, y.tag.cell);
        assert_string_equal(x.tag.session, y.tag.session);
        assert_true(x.frame->n == y.frame->n && !memcmp(x.frame->p, y.frame->p, x.frame->n));
    }
}

static void nothing_comes_back_as_nothing(void **state)
{
    (void)state;
    struct parts a, b;
    CK_CLEAN_BUF struct ck_buf bytes = CK_BUF_INIT;
    begin(&a, 1 << 20);
    begin(&b, 1 << 20);
    write_out(&a, &bytes);
    read_back(ck_buf_slice(&bytes), &b);
    assert_int_equal(evlog_next(b.h.log), 1);
    assert_int_equal(cons_count(b.h.cons), 0);
    end(&a);
    end(&b);
}

// The log of a session that wrote more than it may keep: holes in the middle and a beginning that is gone.
static void a_log_with_holes_comes_back_with_its_numbers(void **state)
{
    (void)state;
    struct parts a, b;
    CK_CLEAN_BUF struct ck_buf bytes = CK_BUF_INIT;
    begin(&a, 64 << 10);
    begin(&b, 64 << 10);
    for (int i = 0; i < 30; i++)
        put(&a, EV_MSG, EV_STREAM, "", "s1", 4000);
    put(&a, EV_MSG, EV_OTHER, CELL_A, "s2", 3000);
    for (int i = 0; i < 20; i++)
        put(&a, i % 2 ? EV_MSG : EV_STATE, i % 2 ? EV_STREAM : EV_OTHER, "", "", 3500);
    write_out(&a, &bytes);
    read_back(ck_buf_slice(&bytes), &b);
    assert_true(evlog_first(b.h.log) > 1);
    same_log(a.h.log, b.h.log);
    // and goes on as the other one would
    put(&a, EV_MSG, EV_STREAM, "", "", 30000);
    put(&b, EV_MSG, EV_STREAM, "", "", 30000);
    same_log(a.h.log, b.h.log);
    end(&a);
    end(&b);
}

static void a_reader_sees_the_same_gap_as_before(void **state)
{
    (void)state;
    struct parts a, b;
    CK_CLEAN_BUF struct ck_buf bytes = CK_BUF_INIT;
    struct ev_filter f = {.mode = EV_MODE_ALL};
    struct evlog_item x, y;
    begin(&a, 64 << 10);
    begin(&b, 64 << 10);
    for (int i = 0; i < 60; i++)
        put(&a, EV_STATE, EV_OTHER, "", "", 4000);
    write_out(&a, &bytes);
    read_back(ck_buf_slice(&bytes), &b);
    assert_int_equal(evlog_read(a.h.log, 1, &f, &x), EVLOG_GAP);
    assert_int_equal(evlog_read(b.h.log, 1, &f, &y), EVLOG_GAP);
    assert_true(x.from == y.from && x.to == y.to && x.count == y.count && x.bytes == y.bytes && x.next == y.next);
    end(&a);
    end(&b);
}

static void consumers_keep_positions_and_sessions(void **state)
{
    (void)state;
    struct parts a, b;
    CK_CLEAN_BUF struct ck_buf bytes = CK_BUF_INIT;
    bool is_new;
    uint64_t from;
    begin(&a, 1 << 20);
    begin(&b, 1 << 20);
    struct consumer *one = cons_get(a.h.cons, "one", &is_new), *two = cons_get(a.h.cons, "two", &is_new);
    cons_ack(a.h.cons, one, 17);
    cons_learn(a.h.cons, one, "s1", &from);
    cons_learn(a.h.cons, two, "s2", &from);
    cons_ack(a.h.cons, two, 9);
    write_out(&a, &bytes);
    read_back(ck_buf_slice(&bytes), &b);
    one = cons_get(b.h.cons, "one", &is_new);
    assert_false(is_new);
    assert_int_equal(cons_acked(one), 17);
    assert_true(cons_owns(one, "s1") && !cons_owns(one, "s2"));
    two = cons_get(b.h.cons, "two", &is_new);
    assert_true(!is_new && cons_owns(two, "s2"));
    assert_int_equal(cons_attached(b.h.cons), 0);
    // a client that comes back under another name still gets what its old one missed
    assert_int_equal(cons_learn(b.h.cons, one, "s2", &from), 1);
    assert_int_equal(from, 9);
    end(&a);
    end(&b);
}

static void finished_cells_are_kept_even_when_the_log_dropped_them(void **state)
{
    (void)state;
    struct parts a, b;
    CK_CLEAN_BUF struct ck_buf bytes = CK_BUF_INIT;
    begin(&a, 64 << 10);
    begin(&b, 64 << 10);
    finish_cell(&a, CELL_A, CELL_TIMEOUT);
    for (int i = 0; i < 60; i++)
        put(&a, EV_STATE, EV_OTHER, "", "", 4000);
    finish_cell(&a, CELL_B, CELL_OK);
    write_out(&a, &bytes);
    read_back(ck_buf_slice(&bytes), &b);
    const struct cellbook_entry *x = cellbook_find(&b.book, CELL_A), *y = cellbook_find(&b.book, CELL_B);
    assert_non_null(x);
    assert_non_null(y);
    assert_int_equal(x->status, CELL_TIMEOUT);
    assert_int_equal(y->status, CELL_OK);
    struct evlog_slot s;
    assert_int_equal(evlog_slot(b.h.log, evlog_next(b.h.log) - 1, &s), 1);
    assert_ptr_equal(s.frame, y->frame); // one copy, as before
    end(&a);
    end(&b);
}

static void a_smaller_log_drops_what_it_cannot_hold(void **state)
{
    (void)state;
    struct parts a, b;
    CK_CLEAN_BUF struct ck_buf bytes = CK_BUF_INIT;
    begin(&a, 4 << 20);
    begin(&b, 64 << 10);
    finish_cell(&a, CELL_A, CELL_OK);
    for (int i = 0; i < 100; i++)
        put(&a, EV_STATE, EV_OTHER, "", "", 4000);
    write_out(&a, &bytes);
    read_back(ck_buf_slice(&bytes), &b);
    assert_int_equal(evlog_next(a.h.log), evlog_next(b.h.log));
    assert_true(evlog_bytes(b.h.log) <= 64 << 10);
    end(&a);
    end(&b);
}

// No byte may be changed, added or left out without notice; nothing crashes on what is left.
static void damage_of_any_kind_is_refused(void **state)
{
    (void)state;
    struct parts a;
    CK_CLEAN_BUF struct ck_buf bytes = CK_BUF_INIT;
    begin(&a, 1 << 20);
    put(&a, EV_MSG, EV_STREAM, CELL_A, "s", 40);
    finish_cell(&a, CELL_A, CELL_OK);
    write_out(&a, &bytes);
    for (size_t i = 0; i <= 2 * bytes.n; i++) {
        struct parts b;
        struct ck_err err = CK_ERR_INIT;
        struct ck_slice m, in = ck_buf_slice(&bytes);
        begin(&b, 1 << 20);
        if (i < bytes.n)
            bytes.p[i] ^= 0x40;
        else
            in.n = i == 2 * bytes.n ? 0 : i - bytes.n;
        assert_int_equal(hist_decode(in, &b.h, &m, &err), -1);
        assert_string_equal(err.reason, "bad_history");
        assert_int_equal(err.status, 422);
        if (i < bytes.n)
            bytes.p[i] ^= 0x40;
        end(&b);
    }
    assert_int_equal(ck_buf_add(&bytes, "", 1), 0);
    struct parts b;
    struct ck_err err = CK_ERR_INIT;
    struct ck_slice m;
    begin(&b, 1 << 20);
    assert_int_equal(hist_decode(ck_buf_slice(&bytes), &b.h, &m, &err), -1);
    end(&b);
    end(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_comes_back_as_nothing),
        cmocka_unit_test(a_log_with_holes_comes_back_with_its_numbers),
        cmocka_unit_test(a_reader_sees_the_same_gap_as_before),
        cmocka_unit_test(consumers_keep_positions_and_sessions),
        cmocka_unit_test(finished_cells_are_kept_even_when_the_log_dropped_them),
        cmocka_unit_test(a_smaller_log_drops_what_it_cannot_hold),
        cmocka_unit_test(damage_of_any_kind_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
