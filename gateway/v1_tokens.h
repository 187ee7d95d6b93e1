// Tokens beside the gateway's own, over restarts.
#pragma once
#include "gateway/auth.h"

struct store;

int tokens_load(struct store *store, struct auth *a, struct ck_err *err); // start-up only
