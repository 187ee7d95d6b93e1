// The steps of a view: in the pool the cell is parsed and rewritten, since it may have megabytes; pictures
// that are too large go to the guest to be shrunk; in the pool again it becomes what its owner sends.
#include "gateway/cell_view.h"

#include "gateway/picture_shrink.h"
#include "gateway/registry.h"

#include <stdlib.h>

struct cell_view {
    uv_work_t work;
    struct gateway *gw;
    struct session *s; // ref
    struct v1_output output;
    const struct cell_view_events *ev;
    void *user;
    struct ck_buf finished; // until it is parsed
    json_t *cell;
    struct pictures pictures;
    struct picture_shrink *shrink;
    char why[CK_ERR_TEXT_MAX]; // what kept pictures whole
    bool hurry;
    int rc;
};

static void view_done(struct cell_view *v, int rc)
{
    v->ev->done(v->user, rc);
    session_unref(v->s);
    v1_output_free(&v->output);
    ck_buf_free(&v->finished);
    pictures_free(&v->pictures);
    json_decref(v->cell);
    free(v);
}

static void make_in_pool(uv_work_t *work)
{
    struct cell_view *v = work->data;
    v->rc = (v->pictures.n && pictures_apply(&v->pictures, v->cell, v->why)) || v->ev->make(v->user, v->cell);
}

static void make_after(uv_work_t *work, int status)
{
    struct cell_view *v = work->data;
    view_done(v, status || v->rc ? -1 : 0);
}

static void make(struct cell_view *v, const char *why)
{
    snprintf(v->why, sizeof v->why, "%s", why);
    if (uv_queue_work(v->gw->loop, &v->work, make_in_pool, make_after))
        view_done(v, -1);
}

static void shrunk(void *user, const char *why)
{
    struct cell_view *v = user;
    v->shrink = NULL;
    make(v, why);
}

// When nothing is to be shrunk the same turn in the pool makes the answer.
static void rewrite_in_pool(uv_work_t *work)
{
    struct cell_view *v = work->data;
    v->cell = json_loadb((const char *)v->finished.p, v->finished.n, JSON_ALLOW_NUL, NULL);
    ck_buf_free(&v->finished);
    v->rc = !json_is_object(v->cell) || v1_output_apply(&v->output, v->cell);
    v->pictures.edge = (uint32_t)v->output.max_image_edge;
    if (!v->rc && v->pictures.edge)
        pictures_find(&v->pictures, v->cell);
    if (!v->rc && !v->pictures.n)
        v->rc = v->ev->make(v->user, v->cell);
}

static void rewrite_after(uv_work_t *work, int status)
{
    struct cell_view *v = work->data;
    if (status || v->rc || !v->pictures.n) {
        view_done(v, status || v->rc ? -1 : 0);
        return;
    }
    if (!v->hurry)
        v->shrink = picture_shrink_start(v->gw, v->s, &v->pictures, shrunk, v);
    if (!v->shrink)
        make(v, v->hurry ? "nobody waited for it" : "the gateway is out of memory");
}

struct cell_view *cell_view_start(struct gateway *gw, struct session *s, struct v1_output *output,
                                  struct ck_slice finished, const struct cell_view_events *ev, void *user)
{
    struct cell_view *v = calloc(1, sizeof *v);
    if (!v || ck_buf_add(&v->finished, finished.p, finished.n)) {
        free(v);
        return NULL;
    }
    v->gw = gw;
    v->s = session_ref(s);
    v->ev = ev;
    v->user = user;
    v->work.data = v;
    v->output = *output;
    if (uv_queue_work(gw->loop, &v->work, rewrite_in_pool, rewrite_after)) {
        session_unref(v->s);
        ck_buf_free(&v->finished);
        free(v);
        return NULL;
    }
    memset(output, 0, sizeof *output);
    return v;
}

void cell_view_hurry(struct cell_view *v)
{
    v->hurry = true;
    picture_shrink_hurry(v->shrink);
}
