// Several QMP commands one behind the other, sent without waiting for each answer: QEMU takes them in
// order. The first refusal stops what has not been sent yet. One thread, the client's.
#pragma once
#include "vmm/qmp.h"

struct ck_qmp_script;

typedef void (*ck_qmp_script_cb)(const struct ck_err *err, void *user);

// Begins one, put into the list (its owner's, NULL at first). NULL = no memory; the functions below take that.
struct ck_qmp_script *ck_qmp_script_new(struct ck_qmp_script **list);
// args (may be NULL) and fd (-1 = none) are taken over in every case. A failure shows in run.
void ck_qmp_script_add(struct ck_qmp_script *s, const char *name, json_t *args, int fd);
// Sends it; cb (may be NULL) once, from the loop or, when nothing could be sent, never: then negative
// is returned. Takes the script over in every case. timeout_ms counts for each command.
int ck_qmp_script_run(struct ck_qmp_script *s, struct ck_qmp *q, unsigned timeout_ms, ck_qmp_script_cb cb, void *user,
                      struct ck_err *err);
// When the client was closed: frees all of the list, calls nothing.
void ck_qmp_scripts_drop(struct ck_qmp_script **list);
