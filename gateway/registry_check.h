// Bounds of what a client may say about a session. Pure. -1 = 400 bad_field with the field's name.
#pragma once
#include "common/ck_error.h"
#include "gateway/registry.h"

int check_name(const char *name, struct ck_err *err);         // 1 to 128 bytes, no control characters
int check_checkpoint_name(const char *name, struct ck_err *err); // likewise, no slashes, nothing that looks like an id
int check_metadata(const json_t *metadata, struct ck_err *err); // an object of at most 64 KiB
int check_timeouts(const json_t *timeouts, struct ck_err *err); // {cell_s, idle_s, delete_s}, whole seconds
int check_env(const json_t *env, struct ck_err *err);         // {NAME: text}, at most 256, 64 KiB in all
int check_spec(const struct session_spec *spec, struct ck_err *err); // not which templates there are: template_names.h
