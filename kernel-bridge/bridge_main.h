// The per-session process. Reads its configuration from fd 0, gets the template's RAM as fd 3 and
// answers once on fd 4: "ready\n" or "failed {…}\n". Returns the exit code. Called by main only.
#pragma once

int ck_cmd_bridge(int argc, char **argv);
