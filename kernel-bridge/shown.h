// Which artifacts of a cell are pictures that it showed inline as well. Pure.
#pragma once
#include "kernel-bridge/artifacts.h"
#include "kernel-bridge/cellout.h"

// Adds "display" to every artifact whose bytes are those of a picture in c: the index among the finished
// cell's displays, or "result". What cannot be told (no memory, no hash) stays unmarked.
void shown_mark(const struct cout *c, struct artifacts *a);
