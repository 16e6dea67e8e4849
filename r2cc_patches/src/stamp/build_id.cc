// Which build this is. Compiled anew for each, by `r2cc build`; by hand it is nobody's.
#ifndef R2CC_BUILD_ID
#define R2CC_BUILD_ID "made by hand"
#endif

extern __attribute__((visibility("default"))) const char r2ccBuildId[];
const char r2ccBuildId[] = R2CC_BUILD_ID;
