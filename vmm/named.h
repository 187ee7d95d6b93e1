// Templates with names, of packages and warm-up of a user's own, and the default one in other sizes
// (docs/PROTOCOL.md section 5). A name says which template is meant: a small file that is replaced when
// its template is built anew.
//
//   CACHE/named/NAME.MEMORY_MB.ACCEL.json   which template it is
//   CACHE/named/.building-NAME.MEMORY_MB    locked while one is being built
//
// Small file work, synchronous, any thread. The gateway reads the same files (gateway/template_names.c).
#pragma once
#include "common/ck_error.h"
#include "vmm/template.h"

#define CK_NAMED_MAX 65     // bytes of a name with its NUL
#define CK_NAMED_LIST_MAX 256
#define CK_NAMED_DEFAULT "default"

struct ck_named {
    char name[CK_NAMED_MAX], template[CK_HASH_MAX], accel[8];
    unsigned memory_mb;
    bool built; // its template is there
};

// 1 to 64 of a-z, 0-9, '-' and '_', the first one a letter or digit. 400 "bad_name".
int ck_named_check(const char *name, struct ck_err *err);
// "NAME.MEMORY_MB.ACCEL.json" and nothing else. Pure.
bool ck_named_parse_file(const char *file, struct ck_named *out);

int ck_named_put(const char *cache, const char *name, const struct ck_template *t, struct ck_err *err);
// Marks the name as being built until *fd is closed.
int ck_named_lock(const char *cache, const char *name, unsigned memory_mb, int *fd, struct ck_err *err);
// What there is, at most CK_NAMED_LIST_MAX, in no order. The number, or -1: the folder cannot be read, or there are more.
int ck_named_list(const char *cache, struct ck_named *out, struct ck_err *err);
// Forgets a name in all its sizes; the templates themselves go when nothing needs them (vmm/cache.h).
// 404 "no_such_template".
int ck_named_remove(const char *cache, const char *name, struct ck_err *err);
