// Cleanup attributes for locals (after crun's idea). One resource uses either this or goto, never
// both. Taking a value out of a cleaned local: `return ck_take_ptr(&p)` / `ck_take_fd(&fd)`.
#pragma once
#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

static inline void ck_clean_free_(void *p) { free(*(void **)p); }
static inline void ck_clean_fd_(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}
static inline void ck_clean_json_(json_t **j) { json_decref(*j); }

// cppcheck 2.10 does not know the attribute. What it lets one keep is a static, so that what is not
// cleaned is still reported.
#ifdef __cppcheck__
#define CK_CLEAN_FREE static
#define CK_CLEAN_FD static
#else
#define CK_CLEAN_FREE __attribute__((cleanup(ck_clean_free_)))
#define CK_CLEAN_FD __attribute__((cleanup(ck_clean_fd_)))
#endif
#define CK_CLEAN_JSON __attribute__((cleanup(ck_clean_json_)))

static inline int ck_take_fd(int *fd)
{
    int v = *fd;
    *fd = -1;
    return v;
}
static inline json_t *ck_take_json(json_t **j)
{
    json_t *v = *j;
    *j = NULL;
    return v;
}
