# ckconv - nothing is written outside build/.
#
##   make demo         start here: builds two examples and runs them (a grouped convolution checked and
##                     timed, then a network trained on handwritten digits), about a minute
##   make test         what needs no GPU of the tests, about ten minutes; ends with `N passed, N failed`
##   make test-full    all of that: longer crosses and fuzz runs, every build, every AMD target
##   make test-more    what test-full adds to test (CKCONV_TEST_BUDGET=1500: as far as so many seconds go)
##   make test-all     the simulated crosses without anything left out: hours
##   make test-gpu     the tables of those tests on this machine's GPU
##   make test-amd     kernels compiled for AMD targets: registers, spills, sizes; see tests/test_amd.sh
##   make sim          build/ckconv-sim: the driver with a simulated GPU (CKCONV_SIM_TARGET=gfx942, ...)
##   make examples     all programs of examples/ as build/NAME, the driver as build/ckconv
##   make headers      joins src/ into ckconv.h and kernels.hip.h, the two files that users copy
##   make single       both merged into one file, build/ckconv.h
##   make lib          build/libckconv.a and build/libckconv.so
##   make python       what python/ckconv_torch.py loads: build/libckconv.so, build/_ckconv_fast.abi3.so
##   make test-python  that file beside PyTorch, where Python has it
##   make install      headers, libraries, driver, ckconv.pc and CMake's package below PREFIX=/usr/local
##                     (DESTDIR=folder is put before it; LIBDIR=PREFIX/lib)
##   make dist         build/ckconv-VERSION.tar.gz: headers, one file, licence, checksums
##   make bench        speed over bench/cases.tsv, beside oneDNN where libdnnl-dev is installed
##   make bench-amd    on a machine with an AMD GPU: tests, tables, networks and the fit of modelled times, as
##                     one file to send back, build/report.txt
##   make clean        removes build/
##
##   CC=clang          compiler (cc)           CFLAGS=-O2   its flags (-O3); -fopenmp is added where it works
##   CXX=clang++       C++17 compiler (c++) of the simulated GPU: test and sim
##   GPU=hip|cuda|none build the examples with hipcc, with nvcc, or for the CPU only; the default,
##                     auto, takes hipcc or nvcc only where there is a GPU. GPUFLAGS go to hipcc or nvcc

help:
	@sed -n 's/^## \{0,1\}//p' Makefile

.PHONY: help demo test test-full test-gpu test-amd sim headers single bench examples clean FORCE
.SUFFIXES:
.DELETE_ON_ERROR:

B := build
CFLAGS ?= -O3
WARNINGS := -Wall -Wextra
GPU ?= auto
GPUFLAGS ?= -O3
# What users copy, and what it is joined from. Everything but the merged tests compiles src/, so that messages of
# compilers name a room of it.
HEADERS := ckconv.h kernels.hip.h
SOURCES := $(wildcard src/*.h src/*/*.h src/*/*/*.h)

# As many jobs as cores; a -j on the command line wins.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
endif

ifneq ($(filter-out help clean,$(MAKECMDGOALS)),)
ifeq ($(origin CC),default)
CC := $(shell for c in cc gcc clang; do if command -v $$c; then break; fi; done | sed 's|.*/||')
endif
ifeq ($(origin CXX),default)
CXX := $(shell for c in c++ g++ clang++; do if command -v $$c; then break; fi; done | sed 's|.*/||')
endif
ifeq ($(GPU),auto)
GPU := $(shell if [ -e /dev/kfd ] && command -v hipcc >/dev/null 2>&1; then echo hip; \
    elif command -v nvcc >/dev/null 2>&1 && nvidia-smi -L >/dev/null 2>&1; then echo cuda; else echo none; fi)
endif
endif
export CC

# $(B)/config changes with the compiler and the flags, so that everything is built anew then; make looks once.
# $(B)/openmp holds -fopenmp if the compiler takes it and can link with it, else nothing.
$(B)/config: $(if $(filter 0,$(MAKELEVEL)),FORCE)
	@mkdir -p $(B)
	@{ echo '$(CC) $(CFLAGS) GPU=$(GPU) $(GPUFLAGS)'; $(CC) --version 2>&1 | head -n 1; } >$@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
$(B)/openmp: $(B)/config
	@echo 'int main(void) { return 0; }' >$(B)/probe.c
	@if $(CC) -fopenmp $(B)/probe.c -o $(B)/probe >/dev/null 2>&1; then echo -fopenmp; fi >$@
	@rm -f $(B)/probe.c $(B)/probe
OPENMP = $$(cat $(B)/openmp)
# The same of hipcc or nvcc, whose OpenMP may be missing.
OPENMP_FLAG = $(if $(filter cuda,$(GPU)),-Xcompiler) -fopenmp
$(B)/openmp_gpu: $(B)/config
	@printf '#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n' >$(B)/probe_gpu.cc
	@if [ '$(GPU)' = hip ]; then compiler='hipcc -x hip'; else compiler='nvcc -x cu'; fi; \
	link=$${compiler%% *}; \
	if { $$compiler -std=c++17 $(GPUFLAGS) $(OPENMP_FLAG) -c $(B)/probe_gpu.cc -o $(B)/probe_gpu.o && \
	    $$link $(GPUFLAGS) $(B)/probe_gpu.o -o $(B)/probe_gpu $(OPENMP_FLAG); } >/dev/null 2>&1; \
	then echo '$(OPENMP_FLAG)'; fi >$@
	@[ -s $@ ] || echo 'note: $(GPU) without OpenMP: the cpu engine of these programs has one thread'
	@rm -f $(B)/probe_gpu*
OPENMP_GPU = $$(cat $(B)/openmp_gpu)

# --- Examples. A program that does not define the implementation itself is linked with that of ckconv_impl.c.
# Only implementations need a GPU compiler; the other programs are C and are compiled as C.

EXAMPLES := $(filter-out ckconv_impl,$(basename $(notdir $(wildcard examples/*.c))))
# hello is a first program, on the host whatever the machine; it holds its own implementation.
# hello_gpu is linked with the one that a GPU compiler has read.
IMPLEMENTERS := $(filter-out hello_gpu,\
    $(basename $(notdir $(shell grep -l 'define  *CKCONV_IMPLEMENTATION' examples/*.c))))
program = $(B)/$(if $(filter ckconv_cli,$1),ckconv,$1)

ifeq ($(GPU),hip)
COMPILE_GPU = hipcc -x hip -std=c++17 $(GPUFLAGS) $(OPENMP_GPU) -Isrc -c $< -o $@
COMPILE = $(CC) $(CFLAGS) $(WARNINGS) -Wno-unknown-pragmas -Isrc -c $< -o $@
LINK = hipcc $(GPUFLAGS) $^ -o $@ $(OPENMP_GPU) -lm
GPU_PROBE = $(B)/openmp_gpu
else ifeq ($(GPU),cuda)
# nvcc's own default is an old architecture, without matrix units; sm_90 has its fast ones as sm_90a.
CUDA_ARCH := $(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | \
    sed -n '1{s/\.//;s/^90$$/90a/;s/^[0-9]/-arch=sm_&/p;}')
COMPILE_GPU = nvcc -x cu -std=c++17 $(if $(findstring arch,$(GPUFLAGS)),,$(CUDA_ARCH)) $(GPUFLAGS) $(OPENMP_GPU) -Isrc -c $< -o $@
COMPILE = $(CC) $(CFLAGS) $(WARNINGS) -Wno-unknown-pragmas -Isrc -c $< -o $@
LINK = nvcc $^ -o $@ $(OPENMP_GPU) -lm
GPU_PROBE = $(B)/openmp_gpu
else ifeq ($(filter-out auto none,$(GPU)),)
COMPILE = $(CC) $(CFLAGS) $(WARNINGS) $(OPENMP) -Isrc -c $< -o $@
COMPILE_GPU = $(COMPILE)
LINK = $(CC) $^ -o $@ $(OPENMP) -lm
else
$(error GPU=$(GPU): must be auto, hip, cuda or none)
endif

$(filter-out $(IMPLEMENTERS:%=$(B)/examples/%.o),$(EXAMPLES:%=$(B)/examples/%.o)): \
    $(B)/examples/%.o: examples/%.c $(SOURCES) $(wildcard examples/*.h) $(B)/openmp
	@mkdir -p $(@D)
	$(COMPILE)
$(IMPLEMENTERS:%=$(B)/examples/%.o): $(B)/examples/%.o: examples/%.c $(SOURCES) $(B)/openmp
	@mkdir -p $(@D)
	$(COMPILE)
# A GPU's kernels are four more objects, so that -j compiles them side by side.
KERNELS := $(if $(filter hip cuda,$(GPU)),1 2 3 4)
OBJECTS := $(B)/ckconv.o $(KERNELS:%=$(B)/ckconv_part%.o)
$(B)/ckconv.o: examples/ckconv_impl.c $(SOURCES) $(B)/openmp $(GPU_PROBE)
	$(COMPILE_GPU) $(if $(KERNELS),-DCKCONV_PART=0)
$(KERNELS:%=$(B)/ckconv_part%.o): $(B)/ckconv_part%.o: examples/ckconv_impl.c $(SOURCES) $(B)/openmp $(GPU_PROBE)
	$(COMPILE_GPU) -DCKCONV_PART=$*
$(foreach e,$(EXAMPLES),$(eval $(call program,$e): \
    $(B)/examples/$e.o $(if $(filter $e,$(IMPLEMENTERS)),,$(OBJECTS)); $$(LINK)))

# Threads and dlopen have libraries of their own where the C library is old.
$(B)/train_digits_parallel: private override LINK += -lpthread -ldl

examples: $(foreach e,$(EXAMPLES),$(call program,$e))

# The ResNeXt-50 (32x4d) layer with 28x28 pixels, 8 images: verify init time ndim G N K C filter input strides
# dilations left-pads right-pads.
demo: $(B)/grouped_conv_bwd_weight $(B)/train_digits
	@echo
	$(B)/grouped_conv_bwd_weight 1 1 1  2 32 8 8 8  3 3  28 28  1 1  1 1  1 1  1 1
	@echo
	$(B)/train_digits

# --- The headers that users copy, and one file

# Written in place only where they change, so that nothing is built anew for nothing.
ROOMS = $(filter-out src/hide.h src/show.h src/api.h src/ckconv.h src/kernels.hip.h,$(SOURCES))
headers:
	@mkdir -p $(B)
	@for h in hide show; do \
	    awk -v what=$$h -f tools/hide.awk $(ROOMS) >$(B)/joined.h || exit 1; \
	    cmp -s $(B)/joined.h src/$$h.h || cp $(B)/joined.h src/$$h.h; \
	done
	@for h in $(HEADERS); do \
	    awk -f tools/join.awk src/$$h >$(B)/joined.h || exit 1; \
	    if cmp -s $(B)/joined.h $$h; then echo "$$h: as src/ has it"; else cp $(B)/joined.h $$h && echo "$$h: written"; fi; \
	done; rm -f $(B)/joined.h

single: $(B)/ckconv.h
$(B)/single/ckconv.h: $(HEADERS) tools/single.awk
	@mkdir -p $(@D)
	awk -f tools/single.awk ckconv.h >$@
$(B)/ckconv.h: $(B)/single/ckconv.h
	cp $< $@

# --- Libraries, installation, release. The one object of all programs is fit for a shared library. Its soname
# has major and minor version: structs may grow between minor versions.

.PHONY: lib python test-python install dist
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
VERSION = $(shell sed -n 's/^.define CKCONV_VERSION_[MP][A-Z]* //p' ckconv.h | paste -sd. -)
SOVERSION = $(basename $(VERSION))

$(OBJECTS): private override CFLAGS += -fPIC
$(OBJECTS): private override GPUFLAGS += $(if $(filter cuda,$(GPU)),-Xcompiler) -fPIC
$(B)/examples/hello_gpu.o: private override CFLAGS += -DCKCONV_IMPLEMENTED

$(B)/libckconv.a: $(OBJECTS)
	@rm -f $@
	$(AR) rcs $@ $^
$(B)/libckconv.so: $(OBJECTS)
	$(LINK) -shared -Xlinker -soname=libckconv.so.$(SOVERSION)
	@ln -sf libckconv.so $@.$(SOVERSION)
lib: $(B)/libckconv.a $(B)/libckconv.so
python: $(B)/libckconv.so $(B)/_ckconv_fast.abi3.so
test-python: python
	@BUILD=$(B) CC=$(CC) sh tests/test_python.sh

# What calls the library from Python without ctypes, where Python.h is: the same for all Pythons from 3.10 on.
PYTHON_H = $(firstword $(wildcard $(addsuffix /Python.h,$(shell for p in $${PYTHON:-python3 /usr/bin/python3}; do \
    "$$p" -c 'import sysconfig; print(sysconfig.get_path("include"))' 2>/dev/null; done))))
$(B)/_ckconv_fast.abi3.so: python/_ckconv_fast.c ckconv.h
	@mkdir -p $(@D) && rm -f $@
	@if [ -z "$(PYTHON_H)" ]; then \
	    echo "python: there is no Python.h (Debian: python3-dev): ctypes calls the library"; \
	elif $(CC) $(CFLAGS) $(WARNINGS) -fPIC -shared -I$(dir $(PYTHON_H)) -I. $< -o $@; then \
	    echo "python: $@ calls the library"; \
	else \
	    echo "python: python/_ckconv_fast.c does not compile here: ctypes calls the library"; \
	fi

# What a program that links libckconv.a needs.
PRIVATE_LIBS = $(if $(filter hip,$(GPU)),-lamdhip64 -lstdc++,$(if $(filter cuda,$(GPU)),-lcudart -lstdc++)) -lm

install: lib $(B)/ckconv
	install -d "$(DESTDIR)$(PREFIX)/include" "$(DESTDIR)$(PREFIX)/bin" "$(DESTDIR)$(LIBDIR)/pkgconfig" \
	    "$(DESTDIR)$(LIBDIR)/cmake/ckconv"
	install -m 644 $(HEADERS) "$(DESTDIR)$(PREFIX)/include"
	install -m 755 $(B)/ckconv "$(DESTDIR)$(PREFIX)/bin"
	install -m 644 $(B)/libckconv.a "$(DESTDIR)$(LIBDIR)"
	install -m 755 $(B)/libckconv.so "$(DESTDIR)$(LIBDIR)/libckconv.so.$(SOVERSION)"
	ln -sf libckconv.so.$(SOVERSION) "$(DESTDIR)$(LIBDIR)/libckconv.so"
	install -m 644 cmake/ckconvConfig.cmake cmake/ckconvConfigVersion.cmake "$(DESTDIR)$(LIBDIR)/cmake/ckconv"
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@VERSION@|$(VERSION)|' \
	    -e "s|@PRIVATE_LIBS@|$(if $(filter none,$(GPU)),$(OPENMP)) $(PRIVATE_LIBS)|" ckconv.pc.in \
	    >"$(DESTDIR)$(LIBDIR)/pkgconfig/ckconv.pc"

# The same bytes wherever GNU tar packs them.
RELEASE = ckconv-$(VERSION)
dist: single
	@rm -rf $(B)/$(RELEASE) && mkdir -p $(B)/$(RELEASE)/single
	cp -R $(HEADERS) LICENSE CMakeLists.txt cmake $(B)/$(RELEASE)
	cp $(B)/ckconv.h $(B)/$(RELEASE)/single
	cd $(B)/$(RELEASE) && find . -type f ! -name SHA256SUMS | sed 's|^\./||' | LC_ALL=C sort | \
	    xargs $$(command -v sha256sum || echo shasum -a 256) >SHA256SUMS
	cd $(B) && tar $$(if tar --version 2>/dev/null | grep -q GNU; then \
	    echo --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 --mode=u=rwX,go=rX; fi) -cf - $(RELEASE) | \
	    gzip -9n >$(RELEASE).tar.gz

# --- Tests. tests/run.sh runs an entry: a script, or FOLDER[:TARGET]/PROGRAM[+PART][@full|@quick]. Each is a goal
# run/ENTRY, which builds what the entry needs, so that tests run while others are built.
# Folders: main (from src/), merged (from what users copy), sanitized, sim (kernels on the simulator, for any
# target), simasan. The tests' own code is the same in main, merged and sim.

TESTS := $(basename $(notdir $(wildcard tests/test_*.c)))
TESTFLAGS := -O1 -std=c99 $(WARNINGS)
SANITIZER_FLAGS := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
# Without a GPU compiler the programs' implementation is the tests', too.
MAIN_OBJECT := $(if $(filter none,$(GPU)),$(B)/ckconv.o,$(B)/test/main/ckconv.o)

$(B)/test/main/ckconv.o: tests/impl.c $(SOURCES) $(B)/openmp
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(WARNINGS) $(OPENMP) -Isrc -c $< -o $@
$(B)/test/merged/ckconv.o: tests/impl.c $(HEADERS) $(B)/openmp
	@mkdir -p $(@D)
	$(CC) -O1 $(OPENMP) -I. -c $< -o $@
$(B)/test/sanitized/ckconv.o: tests/impl.c $(SOURCES) $(B)/openmp
	@mkdir -p $(@D)
	$(CC) $(SANITIZER_FLAGS) $(OPENMP) -Isrc -c $< -o $@
$(B)/test/main/%.o: tests/%.c $(SOURCES) $(wildcard tests/*.h examples/*.h) $(B)/openmp
	@mkdir -p $(@D)
	$(CC) $(TESTFLAGS) $(OPENMP) -Isrc -Itests -c $< -o $@
$(B)/test/sanitized/%.o: tests/%.c $(SOURCES) $(wildcard tests/*.h examples/*.h) $(B)/openmp
	@mkdir -p $(@D)
	$(CC) -std=c99 $(SANITIZER_FLAGS) $(OPENMP) -Isrc -Itests -c $< -o $@
$(B)/test/main/%: $(B)/test/main/%.o $(MAIN_OBJECT)
	$(CC) $^ -o $@ $(OPENMP) -lm
$(B)/test/merged/%: $(B)/test/main/%.o $(B)/test/merged/ckconv.o
	@mkdir -p $(@D)
	$(CC) $^ -o $@ $(OPENMP) -lm
$(B)/test/sanitized/%: $(B)/test/sanitized/%.o $(B)/test/sanitized/ckconv.o
	$(CC) $(SANITIZER_FLAGS) $^ -o $@ $(OPENMP) -lm
.SECONDARY:

# The GPU's kernels: the same programs, on the simulator and on a real GPU.
GPU_TESTS := test_golden test_cross test_bias test_conv_conv test_groupnorm test_norm_sums test_epilogue test_transform test_device test_special
SIM_FLAGS := -O1 -g1 -std=c++17 -Wall -Wextra
$(B)/test/sim/ckconv.o: tests/sim_impl.cc tests/sim.h $(SOURCES) $(B)/openmp
	@mkdir -p $(@D)
	$(CXX) $(SIM_FLAGS) $(OPENMP) -Isrc -Itests -c $< -o $@
$(B)/test/sim/%: $(B)/test/main/%.o $(B)/test/sim/ckconv.o
	$(CXX) $^ -o $@ $(OPENMP) -lm
$(B)/test/simasan/ckconv.o: tests/sim_impl.cc tests/sim.h $(SOURCES) $(B)/openmp
	@mkdir -p $(@D)
	$(CXX) $(SIM_FLAGS) $(SANITIZER_FLAGS) -g1 -Isrc -Itests -c $< -o $@
$(B)/test/simasan/%: $(B)/test/sanitized/%.o $(B)/test/simasan/ckconv.o
	$(CXX) $(SANITIZER_FLAGS) $^ -o $@ $(OPENMP) -lm
$(B)/test/sim/test_sim: tests/test_sim.cc tests/sim.h $(SOURCES)
	@mkdir -p $(@D)
	$(CXX) $(SIM_FLAGS) -Isrc -Itests $< -o $@
$(B)/test/sim/test_sim_faults: tests/test_sim_faults.cc tests/sim_impl.cc tests/sim.h $(SOURCES) $(B)/openmp
	@mkdir -p $(@D)
	$(CXX) $(SIM_FLAGS) -O0 -DCKCONV_ONLY_F32 $(OPENMP) -Isrc -Itests $< -o $@ $(OPENMP) -lm
$(B)/test/sim/test_sim_elements $(B)/test/sim/test_sim_order: $(B)/test/sim/%: tests/%.cc tests/sim.h $(SOURCES)
	@mkdir -p $(@D)
	$(CXX) $(SIM_FLAGS) -Isrc -Itests $< -o $@
$(B)/ckconv-sim: $(B)/examples/ckconv_cli.o $(B)/test/sim/ckconv.o
	$(CXX) $^ -o $@ $(OPENMP) -lm
sim: $(B)/ckconv-sim

$(B)/test/gpu/%: $(B)/test/main/%.o $(OBJECTS)
	@mkdir -p $(@D)
	$(LINK)
test-gpu: $(if $(filter none,$(GPU)),,$(GPU_TESTS:%=$(B)/test/gpu/%) $(B)/test/gpu/test_sums)
	@if [ '$(GPU)' = none ]; then echo 'test-gpu: no GPU with hipcc or nvcc here (GPU=hip or GPU=cuda forces one)'; \
	else BUILD=$(B) JOBS=1 sh tests/run.sh $(GPU_TESTS:%=gpu/%) gpu/test_sums; fi

# With TINYGRAD and AMDEMU (tests/amd_emulate.py says what they are) the code objects are executed too: PyTorch's
# problems, then the tables of the simulated programs. EMULATED: targets. EMULATED_SECONDS: for each program.
EMULATED ?= gfx90a gfx942 gfx950 gfx1100 gfx1201
EMULATED_SECONDS ?= 1200
test-amd: $(B)/ckconv $(GPU_TESTS:%=$(B)/test/sim/%)
	@BUILD=$(B) CKCONV_TEST_FULL=1 sh tests/test_amd.sh
	@if [ -n "$$TINYGRAD" ] && [ -n "$$AMDEMU" ]; then \
	    for t in $(EMULATED); do \
	        [ -e $(B)/amd/$$t.hsaco ] || continue; \
	        python3 tests/amd_golden.py $(B)/amd/$$t.hsaco $$t $(B)/ckconv tests/golden || exit 1; \
	        for p in $(filter-out test_device,$(GPU_TESTS)); do \
	            python3 tests/amd_tables.py --seconds $(EMULATED_SECONDS) $(B)/amd/$$t.hsaco $$t $(B)/test/sim/$$p || exit 1; \
	        done; \
	    done; \
	else echo 'skipped: execution on an emulator (TINYGRAD and AMDEMU are not set)'; fi

# Holds a word if programs with sanitizers can be built and run here.
$(B)/sanitizers: $(B)/openmp
	@echo 'int main(void) { return 0; }' >$(B)/probe_s.c
	@if { $(CC) $(SANITIZER_FLAGS) $(B)/probe_s.c -o $(B)/probe_s && $(B)/probe_s; } >/dev/null 2>&1; then \
	    echo yes; \
	fi >$@
	@rm -f $(B)/probe_s.c $(B)/probe_s

# What `make test` runs: first what takes long to build or to run. 1,150 seconds of CPU time, building included,
# are ten minutes of two cores.
SIM_TARGETS := gfx942 gfx1100 sm_90
LONG_SCRIPTS := $(wildcard $(patsubst %,tests/test_%.sh,amd compile compile_gpu fastmath libfuzzer nvidia switches))
SANITIZED_FIRST := test_check test_poison test_limits test_axes
MERGED_FIRST := test_golden test_check test_plan test_axes
FAST := $(SIM_TARGETS:%=sim:%/test_cross@quick) tests/test_amd.sh@quick tests/test_compile.sh@quick \
    main/test_cross@quick sim:gfx942/test_conv_conv@quick sim:sm_90/test_conv_conv@quick \
    sim:sm_100/test_conv_conv+windows@quick \
    tests/test_switches.sh@quick tests/test_fastmath.sh@quick tests/test_nvidia.sh@quick \
    main/test_conv_conv@quick main/test_groupnorm@quick \
    $(SIM_TARGETS:%=sim:%/test_golden@quick) $(SIM_TARGETS:%=sim:%/test_groupnorm@quick) \
    $(addprefix sim:gfx942/,test_transform test_norm_sums test_device test_sums@quick test_epilogue+lines@quick) \
    $(SIM_TARGETS:%=sim:%/test_bias@quick) \
    sim:gfx950/test_cross@quick sim:gfx950/test_bias@quick sim:gfx1201/test_cross+aligned@quick \
    sim:sm_90/test_cross+shares@quick sim:sm_90/test_bias+shares \
    sim:sm_90/test_cross+pairs@quick sim:sm_90/test_bias+pairs \
    sim:sm_90/test_transform sim:gfx942/test_special sim:sm_86/test_special sim/test_sim sim/test_sim_elements \
    sim/test_sim_order sim/test_sim_faults \
    $(filter-out $(LONG_SCRIPTS),$(wildcard tests/test_*.sh)) \
    $(addprefix main/,$(filter-out test_cross test_groupnorm test_conv_conv test_epilogue test_fuzz,$(TESTS))) \
    main/test_epilogue@quick main/test_fuzz@quick \
    $(MERGED_FIRST:%=merged/%) sanitized/test_fuzz@quick $(SANITIZED_FIRST:%=sanitized/%)

# What else test-full runs, most valuable first, as continuous integration has time for a part of it: sanitizers,
# the crosses of simulated GPUs, what is longer than in `make test`, what repeats it on other builds.
CROSS_PARTS := aligned triples depthwise blocks wide first dense sides planes points samples columns dilated \
    filters large
MORE := main/test_cross main/test_groupnorm main/test_conv_conv main/test_epilogue $(SIM_TARGETS:%=sim:%/test_bias) \
    $(addprefix simasan:gfx942/,test_golden test_transform test_groupnorm test_cross+depthwise) \
    $(addprefix sanitized/,$(filter-out $(SANITIZED_FIRST) test_fuzz test_cross test_conv_conv,$(TESTS))) \
    $(addprefix tests/,test_amd.sh test_fastmath.sh test_compile.sh test_compile_gpu.sh) \
    $(foreach t,$(SIM_TARGETS),$(CROSS_PARTS:%=sim:$t/test_cross+%)) \
    $(addprefix tests/,test_switches.sh test_nvidia.sh test_libfuzzer.sh@full test_amd.sh@full) \
    $(foreach p,test_golden test_groupnorm test_conv_conv,$(SIM_TARGETS:%=sim:%/$p)) sim:sm_100/test_conv_conv+windows \
    sim:gfx942/test_epilogue sim:sm_90/test_epilogue+lines \
    $(addprefix sim:gfx1100/,test_epilogue test_transform test_norm_sums test_device test_special) \
    sim:sm_90/test_sums sim:gfx942/test_sums sim:sm_90/test_special tests/test_mutate.sh@full \
    sim:sm_86/test_cross@quick sim:sm_80/test_cross@quick sim:gfx1250/test_cross@quick sim:gfx1250/test_golden@quick \
    sim:gfx1201/test_cross@quick sim:gfx1201/test_bias@quick \
    $(addprefix merged/,$(filter-out $(MERGED_FIRST) test_cross test_conv_conv test_groupnorm,$(TESTS))) \
    tests/test_headers.sh@full main/test_fuzz@full sanitized/test_fuzz \
    sanitized/test_conv_conv merged/test_groupnorm merged/test_conv_conv sanitized/test_cross merged/test_cross \
    $(addprefix main/,$(addsuffix @full,$(filter-out test_fuzz,$(TESTS))))

# And test-all: nothing is thinned out on the simulator and with sanitizers, which takes hours.
MOST := $(addsuffix @full,$(foreach t,$(SIM_TARGETS),$(GPU_TESTS:%=sim:$t/%)) $(TESTS:%=sanitized/%) $(TESTS:%=merged/%))

# What a script needs that make builds. (test_readme.sh compiles the program hello.)
needs_of_test_install.sh := lib single $(foreach e,$(filter-out hello,$(EXAMPLES)),$(call program,$e))
needs_of_test_python.sh := $(B)/libckconv.so $(B)/_ckconv_fast.abi3.so
needs_of_test_parallel.sh := $(B)/train_digits $(B)/train_digits_parallel $(B)/test/sim/ckconv.o
needs_of_test_driver.sh := $(B)/ckconv $(B)/ckconv-sim
needs_of_test_report.sh := $(B)/ckconv $(B)/ckconv-sim
needs_of_test_compile.sh := single
needs_of_test_readme.sh := $(MAIN_OBJECT) $(B)/test/sim/ckconv.o
folder_of = $(firstword $(subst :, ,$(firstword $(subst /, ,$1))))
name_of = $(firstword $(subst +, ,$(subst @, ,$(notdir $1))))
needs_of = $(if $(filter %.sh,$(name_of)),$(needs_of_$(name_of)),$(B)/test/$(folder_of)/$(name_of))
.SECONDEXPANSION:
run/%: $$(call needs_of,$$*) FORCE
	@BUILD=$(B) sh tests/run.sh --one '$*'

# Runs a list of entries; none with sanitizers where they do not work.
without_sanitizers = $(if $(shell cat $(B)/sanitizers),,skipped: sanitizers ($(CC) cannot build or run programs with them))
run_list = $(if $(without_sanitizers),$(filter-out sanitized/% simasan:% simasan/%,$1),$1)
define run_entries
@$(if $(without_sanitizers),echo '$(without_sanitizers)',:)
@BUILD=$(B) sh tests/run.sh --begin $(call run_list,$1)
+@$(if $(CKCONV_TEST_BUDGET),timeout $$(($(CKCONV_TEST_BUDGET) + 20)) )$(MAKE) -sk --no-print-directory $(addprefix run/,$(call run_list,$1)) || true
@BUILD=$(B) sh tests/run.sh --end
endef

.PHONY: test-more test-all
test: $(B)/sanitizers
	$(call run_entries,$(FAST))
test-more: $(B)/sanitizers
	$(call run_entries,$(MORE))
test-all: $(B)/sanitizers
	$(call run_entries,$(MOST))
test-full: $(B)/sanitizers
	$(call run_entries,$(filter-out %.sh@quick tests/test_headers.sh,$(FAST)) $(MORE))

# --- Speed. The comparison with oneDNN is one program that links both.

$(B)/bench_onednn: bench/onednn.cc $(SOURCES) $(B)/ckconv.o
	$(CXX) -O3 -std=c++11 $(WARNINGS) -fopenmp -Isrc $< $(B)/ckconv.o -o $@ -ldnnl -lm
bench: $(B)/ckconv
	@if [ '$(GPU)' = none ] && echo '#include <dnnl.hpp>' | $(CXX) -E -x c++ - >/dev/null 2>&1; then \
	    $(MAKE) --no-print-directory $(B)/bench_onednn; \
	else rm -f $(B)/bench_onednn; fi
	@if [ -x $(B)/bench_onednn ]; then $(B)/bench_onednn $(BENCH); else \
	    echo 'bench: without oneDNN (it needs a C++ compiler, libdnnl-dev and GPU=none)'; \
	    $(B)/ckconv bench --cases bench/cases.tsv $(BENCH); \
	fi

# All that a machine with an AMD GPU can tell, in one file.
.PHONY: bench-amd
bench-amd: $(B)/ckconv $(if $(filter none,$(GPU)),,$(GPU_TESTS:%=$(B)/test/gpu/%) $(B)/test/gpu/test_sums)
	@BUILD=$(B) sh bench/amd.sh $(if $(filter none,$(GPU)),,$(GPU_TESTS:%=$(B)/test/gpu/%) $(B)/test/gpu/test_sums)

clean:
	rm -rf $(B)
