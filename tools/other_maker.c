/* MKL, torch's matrix library, asks these two functions whether the CPU is Intel's. INTEL is what
   we answer instead: tools/other_maker.py compiles this file and puts it before MKL. */
int mkl_serv_intel_cpu(void) { return INTEL; }
int mkl_serv_intel_cpu_true(void) { return INTEL; }
