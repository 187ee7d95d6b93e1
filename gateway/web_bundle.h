// The files of the web front-end, in memory: found once at the start, mapped read-only, never looked for
// on disk by a request. A folder of the bundle holds index.html, embed.html, sandbox.html, favicon.svg and
// assets/*, and beside a file X what X.gz and X.br were compressed to beforehand.
#pragma once
#include "common/ck_error.h"

#include <stdbool.h>
#include <stddef.h>

enum web_coding { WEB_PLAIN, WEB_GZIP, WEB_BROTLI, WEB_CODINGS };

struct web_body {
    const char *p; // NULL = there is none in this coding
    size_t n;
};

struct web_file {
    char *name; // "index.html", "assets/x.js"
    const char *type;
    char hash[33]; // of the plain bytes, for the ETag
    struct web_body body[WEB_CODINGS];
};

struct web_bundle;

// Maps the bundle in dir. base_url ("" or "/prefix") takes the place of every "__CK_BASE__" in HTML files.
// Files that the page does not need are ignored; at most 64 MiB and 512 files, else an error.
int web_bundle_load(const char *dir, const char *base_url, struct web_bundle **out, struct ck_err *err);
// The bundle that belongs to the program exe: dir when it is not NULL; else ../share/cellkeep/web beside
// exe's folder (installed), or ../web/dist (the tree it was built in). 1 = there is none.
int web_bundle_find(const char *dir, const char *exe, const char *base_url, struct web_bundle **out, struct ck_err *err);
void web_bundle_free(struct web_bundle *b); // NULL is fine; no answer may be under way

const struct web_file *web_bundle_get(const struct web_bundle *b, const char *name); // NULL = no such file
// The smallest body that a client with this Accept-Encoding (NULL = none) understands.
enum web_coding web_bundle_choose(const struct web_file *f, const char *accept);
const char *web_bundle_type(const char *name); // by the name's end; NULL = not a kind that the page has
