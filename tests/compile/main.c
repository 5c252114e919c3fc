/* Runs the files in C and in C++. Compiled as C and as C++.
   SPDX-License-Identifier: MIT */
#ifdef __cplusplus
extern "C" {
#endif
int run_c(void);
int run_cc(void);
#ifdef __cplusplus
}
#endif

int main(void)
{
    return run_c() != 0 || run_cc() != 0;
}
