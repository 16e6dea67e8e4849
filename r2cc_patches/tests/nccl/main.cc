#include "check_jobs.h"

int main(int argc, char** argv) { return r2cc::check::runTests(argc, argv); }
