// The OpenAPI 3.1 description of the cell API. Pure.
#pragma once
#include <jansson.h>

// base_url: "" or "/prefix". New reference; NULL when out of memory.
json_t *v1_openapi_document(const char *base_url);
