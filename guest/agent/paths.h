// Names and paths of the guest's files. Pure.
#pragma once
#include "common/ck_buf.h"
#include "common/ck_error.h"

#include <jansson.h>
#include <stdbool.h>

#define AG_PATH_MAX 4096
#define AG_NAME_MAX 255
#define AG_TEMP_PREFIX ".cellkeep-upload-" // our unfinished uploads; never shown to anyone

// An absolute path of sane length without "." and ".." parts, repeated or trailing slashes: those
// are removed ("/a/./b//c/" -> "/a/b/c"); ".." is refused. out has AG_PATH_MAX bytes.
int ag_path_clean(const char *path, char *out, struct ck_err *err);

// Splits a clean path at its last slash: "/a/b" -> "/a", "b"; "/b" -> "/", "b". -1 for "/".
// dir has AG_PATH_MAX bytes; *name points into path.
int ag_path_split(const char *path, char *dir, const char **name);

// True for folders that must not be removed or moved away ("/", "/home", "/home/user", "/tmp" …).
bool ag_path_protected(const char *path);
