// Route table: patterns are cut into segments once; a request's path is cut once and compared with
// each. The best pattern is the one whose first differing segment is the most literal.
#include "gateway/router.h"

#include "gateway/http_url.h"

#include <stdlib.h>
#include <string.h>

#define SEGMENTS_MAX 16

enum segment_kind { SEG_REST, SEG_PARAM, SEG_LITERAL }; // in order of preference

struct segment {
    enum segment_kind kind;
    char *text; // literal text or the parameter's name, owned
};

struct entry {
    const struct http_route *route;
    size_t n;
    struct segment seg[SEGMENTS_MAX];
};

struct router {
    struct entry *entries;
    size_t n;
};

struct cut { // a path, cut at its slashes
    size_t n;
    bool too_long;
    struct {
        const char *p;
        size_t len;
        char *decoded; // NULL when not decodable
    } seg[SEGMENTS_MAX];
    char decoded[1024];
};

struct router *router_new(void)
{
    return calloc(1, sizeof(struct router));
}

void router_free(struct router *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->n; i++)
        for (size_t k = 0; k < r->entries[i].n; k++)
            free(r->entries[i].seg[k].text);
    free(r->entries);
    free(r);
}

// One segment of a pattern, p[0..len).
static int compile_segment(struct entry *e, const char *p, size_t len, bool last)
{
    struct segment *s = &e->seg[e->n];
    if (len >= 2 && p[0] == '{' && p[len - 1] == '}') {
        s->kind = SEG_PARAM;
        p++;
        len -= 2;
        if (len > 3 && !memcmp(p + len - 3, "...", 3)) {
            s->kind = SEG_REST;
            len -= 3;
        }
        if (!len || (s->kind == SEG_REST && !last))
            return -1;
    } else {
        s->kind = SEG_LITERAL;
    }
    s->text = strndup(p, len);
    e->n += s->text != NULL;
    return s->text ? 0 : -1;
}

static int compile(struct entry *e, const struct http_route *route)
{
    const char *p = route->pattern;
    size_t names = 0;
    e->route = route;
    if (*p != '/')
        return -1;
    while (*p == '/' && p[1]) {
        size_t len = strcspn(++p, "/");
        if (e->n == SEGMENTS_MAX || compile_segment(e, p, len, !p[len]))
            return -1;
        names += e->seg[e->n - 1].kind != SEG_LITERAL;
        p += len;
    }
    return names > ROUTER_PARAMS_MAX ? -1 : 0;
}

int router_add(struct router *r, const struct http_route *routes, size_t n)
{
    struct entry *grown = realloc(r->entries, (r->n + n) * sizeof *grown);
    if (!grown && r->n + n)
        return -1;
    r->entries = grown;
    for (size_t i = 0; i < n; i++) {
        struct entry *e = &r->entries[r->n++];
        memset(e, 0, sizeof *e);
        if (compile(e, &routes[i]))
            return -1;
    }
    return 0;
}

// A trailing slash makes no segment. Beyond SEGMENTS_MAX the last segment holds the whole rest,
// which only a {name...} pattern can match.
static void cut_path(const char *path, struct cut *c)
{
    size_t room = sizeof c->decoded;
    char *out = c->decoded;
    c->n = 0;
    c->too_long = false;
    for (const char *p = path; *p == '/' && p[1];) {
        size_t len = strcspn(++p, "/");
        if (c->n == SEGMENTS_MAX) {
            c->too_long = true;
            return;
        }
        c->seg[c->n].p = p;
        c->seg[c->n].len = len;
        c->seg[c->n].decoded = NULL;
        if (len < room && !http_url_decode(p, len, false, out)) {
            c->seg[c->n].decoded = out;
            out += len + 1;
            room -= len + 1;
        }
        c->n++;
        p += len;
    }
}

static bool matches(const struct entry *e, const struct cut *c)
{
    for (size_t i = 0; i < e->n; i++) {
        const struct segment *s = &e->seg[i];
        if (s->kind == SEG_REST)
            return true;
        if (i >= c->n || !c->seg[i].len)
            return false;
        if (s->kind == SEG_LITERAL && (!c->seg[i].decoded || strcmp(s->text, c->seg[i].decoded)))
            return false;
    }
    return e->n == c->n && !c->too_long;
}

// > 0 when a is preferred, both matching one path; 0 when they are alike. Alike up to the end of the
// shorter one means that the longer has a {rest...} that matched nothing: the exact one is meant.
static int preference(const struct entry *a, const struct entry *b)
{
    for (size_t i = 0; i < a->n && i < b->n; i++)
        if (a->seg[i].kind != b->seg[i].kind)
            return (int)a->seg[i].kind - (int)b->seg[i].kind;
    return (a->n < b->n) - (a->n > b->n);
}

static unsigned methods_of(const struct http_route *route)
{
    return route->methods & HTTP_GET ? route->methods | HTTP_HEAD : route->methods;
}

static void fill_params(const struct entry *e, const struct cut *c, struct router_match *out)
{
    for (size_t i = 0; i < e->n; i++) {
        if (e->seg[i].kind == SEG_LITERAL)
            continue;
        const char *raw = i < c->n ? c->seg[i].p : "";
        size_t len = i < c->n ? c->seg[i].len : 0;
        out->params[out->nparams].name = e->seg[i].text;
        out->params[out->nparams].raw = raw;
        out->params[out->nparams].rest = e->seg[i].kind == SEG_REST;
        out->params[out->nparams].len = e->seg[i].kind == SEG_REST ? strlen(raw) : len;
        out->nparams++;
    }
}

void router_match(const struct router *r, unsigned method, const char *path, struct router_match *out)
{
    struct cut c;
    const struct entry *best = NULL, *hit = NULL;
    memset(out, 0, sizeof *out);
    if (*path != '/')
        return;
    cut_path(path, &c);
    for (size_t i = 0; i < r->n; i++)
        if (matches(&r->entries[i], &c) && (!best || preference(&r->entries[i], best) > 0))
            best = &r->entries[i];
    for (size_t i = 0; best && i < r->n; i++) {
        const struct entry *e = &r->entries[i];
        if (!matches(e, &c) || preference(e, best))
            continue;
        out->allowed |= methods_of(e->route);
        if (!hit && methods_of(e->route) & method)
            hit = e;
    }
    if (hit) {
        out->route = hit->route;
        fill_params(hit, &c, out);
    }
}
