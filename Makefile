# Builds xgsw from every .c file under src/. `make help` lists the targets.
# Plain `make` installs nothing. `run/setup` installs what is missing.

# What you may set: make VARIABLE=value
MPICC      ?= mpicc#    the MPI compiler: mpicc, mpicc.mpich, /opt/mpi/bin/mpicc
DEBUG      ?= 0#        1: AddressSanitizer, UBSan and poison; the program is ./xgsw-debug
MARCH      ?= native#   the processor to build for
WERROR     ?= 0#        1: warnings are errors (CI sets it)
CUDA       ?= auto#     0: build without the CUDA machine; 1: stop where it cannot be built
CUDA_HOME  ?=#          where CUDA lies, if nvcc is not on the path
CUDA_ARCH  ?=#          GPUs to build for, e.g. "80 90a 100"; default: 90a and what this nvcc knows of 10.0
CUDA_PTX   ?=#          code that the driver compiles for GPUs that are not among them; default: 80; 0: none
NCCL_DIR   ?=#          where NCCL lies, if not next to CUDA
CUDNN_DIR  ?=#          where cuDNN lies, if not next to CUDA
HDF5_DIR   ?=#          where HDF5 lies, if not where Debian puts it
ONEDNN_DIR ?=#          where oneDNN lies, if not under /usr
BUNDLE     ?= build/bundle#     the folder that `make bundle` lays out; the archive is BUNDLE.tar.xz
BUNDLE_MARCH ?= x86-64-v3#      the processor that the bundle is built for
BUNDLE_CUDA ?= 0#       1: the bundle holds cuBLASLt, cuDNN and NCCL too (more than a gigabyte)
PREFIX     ?= /usr/local#       where `make install` puts it
V          ?= 0#        1: show whole commands
PROVE      ?= prove --timer

PORTABLE := 0#          1: as `make bundle` builds
PROGRAM := $(if $(filter 1,$(PORTABLE)),build/portable/)$(if $(filter 1,$(DEBUG)),xgsw-debug,xgsw)
BUILD   := build/$(if $(filter 1,$(PORTABLE)),portable/)$(notdir $(MPICC))$(if $(filter 1,$(DEBUG)),-debug)
GPU_BUILD := build/$(notdir $(MPICC))#  kernels do not depend on the host's processor
Q       := $(if $(filter 1,$(V)),,@)

# Compile on all cores; a -j on the command line wins.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc)
endif
MAKEFLAGS += --no-print-directory

# --- What is on this machine --------------------------------------------------------------------------------------
# One run of the preprocessor finds the libraries and their versions.

define PROBE
#if __has_include(<mpi.h>)
#include <mpi.h>
#if defined(OPEN_MPI)
found: mpi=Open_MPI_ OMPI_MAJOR_VERSION.OMPI_MINOR_VERSION.OMPI_RELEASE_VERSION
#elif defined(MPICH_VERSION)
found: mpi=MPICH_ MPICH_VERSION
#else
found: mpi=MPI_ MPI_VERSION.MPI_SUBVERSION
#endif
#endif
#if __has_include(<hdf5.h>)
#include <H5pubconf.h>
found: hdf5=H5_VERSION
#endif
#if __has_include(<dnnl_version.h>)
#include <dnnl_version.h>
found: onednn=DNNL_VERSION_MAJOR.DNNL_VERSION_MINOR.DNNL_VERSION_PATCH
#endif
#if __has_include(<cmocka.h>)
found: cmocka=yes
#endif
#if __has_include(<omp.h>)
found: openmp=yes
#endif
endef

LOOK_FOR_HDF5 = pkg-config $1 hdf5-serial || pkg-config $1 hdf5 || echo $2
DEBIAN_HDF5   = /usr/lib/$(shell $(CC) -print-multiarch 2>/dev/null)/hdf5/serial
FROM_DIR      = $(if $1,-isystem $1/include)
LIBS_DIR      = $(if $1,-L$1/lib -Wl$(,)-rpath$(,)$1/lib)
,            := ,
version       = $(patsubst $1=%,%,$(filter $1=%,$(FOUND)))

ifneq ($(filter-out clean help format,$(or $(MAKECMDGOALS),all)),)
$(shell mkdir -p build)
$(file >build/probe.c,$(PROBE))
HDF5_CFLAGS := $(or $(call FROM_DIR,$(HDF5_DIR)),$(patsubst -I%,-isystem %,\
                 $(shell ($(call LOOK_FOR_HDF5,--cflags,-I/usr/include/hdf5/serial)) 2>/dev/null)))
HDF5_LIBS   := $(if $(HDF5_DIR),$(call LIBS_DIR,$(HDF5_DIR)) -lhdf5,\
                 $(shell ($(call LOOK_FOR_HDF5,--libs,-L$(DEBIAN_HDF5) -lhdf5)) 2>/dev/null))
PROBE_CC    := $(or $(shell command -v $(MPICC)),$(CC))
FOUND       := $(shell $(PROBE_CC) -E -P $(HDF5_CFLAGS) $(call FROM_DIR,$(ONEDNN_DIR)) build/probe.c 2>/dev/null \
                 | sed -n 's/^found: *//p' | tr -d ' "')
COMPILER    := $(shell $(PROBE_CC) --version 2>/dev/null | head -1)
MACROS      := $(shell $(PROBE_CC) -march=$(MARCH) -dM -E -x c /dev/null 2>/dev/null | awk '{ print $$2 }')
MPI_SHOW    := $(shell $(MPICC) -show 2>/dev/null)
NVCC        := $(if $(filter 0,$(CUDA)),,$(firstword $(if $(CUDA_HOME),$(wildcard $(CUDA_HOME)/bin/nvcc)) \
                 $(shell command -v nvcc) $(wildcard /usr/local/cuda/bin/nvcc)))
CUDA_FROM   := $(if $(NVCC),$(or $(CUDA_HOME),$(patsubst %/bin/nvcc,%,$(realpath $(NVCC)))))
NVCC_SAYS   := $(if $(NVCC),$(shell $(NVCC) --version | sed -n 's/.*release \([0-9.]*\).*/\1/p'))
CUDA_LACKS  := $(if $(NVCC),$(strip $(foreach header,cublasLt.h nccl.h,$(if $(wildcard $(addsuffix \
                 /include/$(header),$(CUDA_FROM) $(NCCL_DIR) /usr /usr/local)),,$(header)))))
# What is asked for and not there is not left out in silence.
CUDA_WRONG  := $(or $(if $(filter-out auto 0 1,$(CUDA)),CUDA=$(CUDA) is neither auto nor 0 nor 1),\
                 $(if $(filter-out 0,$(CUDA)),$(if $(CUDA_HOME),$(if $(wildcard $(CUDA_HOME)/bin/nvcc),,\
                 CUDA_HOME=$(CUDA_HOME) has no bin/nvcc))))
ifeq ($(CUDA_WRONG)$(CUDA),1)
CUDA_WRONG  := $(if $(NVCC),$(if $(CUDA_LACKS),CUDA=1: $(CUDA_FROM) lacks $(CUDA_LACKS)),\
                 CUDA=1: there is no nvcc; CUDA_HOME says where CUDA lies)
endif
$(if $(CUDA_WRONG),$(error $(CUDA_WRONG). CUDA=0 builds without the CUDA machine))
# Tests take the code that there is, or else build for one GPU. The family 100f, since nvcc 12.9, is 10.0 and 10.3.
FOR_TESTS   := $(filter check check-full check-long tests tests-full tests-long emulator units programs,$(MAKECMDGOALS))
BUILT_CODE  := $(if $(FOR_TESTS),$(subst $(,), ,$(file <$(BUILD)/kernel_flags)))
BUILT_FOR    = $(patsubst code=$1_%,%,$(filter code=$1_%,$(BUILT_CODE)))
BLACKWELL   := $(shell echo '$(NVCC_SAYS)' | awk -F. '{ n = 100 * $$1 + $$2; \
                 if (n >= 1208) print (n >= 1209 ? "100f" : "100") }')
override CUDA_PTX := $(filter-out 0,$(or $(CUDA_PTX),$(if $(FOR_TESTS),$(call BUILT_FOR,compute),80)))
override CUDA_ARCH := $(or $(CUDA_ARCH),$(call BUILT_FOR,sm),90a $(if $(FOR_TESTS),,$(BLACKWELL)))
HAS_CUDNN   := $(if $(NVCC),$(wildcard $(addsuffix /include/cudnn_backend.h,$(CUDA_FROM) $(CUDNN_DIR) /usr)))
GIT         := $(if $(wildcard .git),git --no-optional-locks,false)
COMMIT      := $(or $(shell $(GIT) rev-parse HEAD 2>/dev/null),unknown)
DIRTY       := $(if $(shell $(GIT) status --porcelain -- src Makefile 2>/dev/null),1,0)
endif

MPI_NAME     := $(subst _, ,$(call version,mpi)) ($(MPICC))
# CUDA without cuBLASLt's or NCCL's header is no CUDA.
ifneq ($(CUDA_LACKS),)
$(info CUDA $(NVCC_SAYS) in $(CUDA_FROM) lacks $(CUDA_LACKS): building without it)
NVCC :=
CUDA_FROM :=
endif
ONEDNN_MAJOR := $(firstword $(subst ., ,$(call version,onednn)))
MISSING      := $(strip $(foreach library,mpi hdf5 onednn openmp,$(if $(call version,$(library)),,$(library))))

# What a compiler uses by itself of a processor: its macro, and the name in /proc/cpuinfo where that is another.
FEATURES := SSE3=pni SSSE3 SSE4_1 SSE4_2 POPCNT AVX AVX2 F16C FMA BMI=bmi1 BMI2 LZCNT=abm MOVBE AVXVNNI=avx_vnni GFNI \
            AVX512F AVX512BW AVX512CD AVX512DQ AVX512VL AVX512VBMI AVX512IFMA AVX512VBMI2=avx512_vbmi2 \
            AVX512VNNI=avx512_vnni AVX512BITALG=avx512_bitalg AVX512VPOPCNTDQ=avx512_vpopcntdq \
            AVX512BF16=avx512_bf16 AVX512FP16=avx512_fp16 ARM_FEATURE_SVE=sve ARM_FEATURE_SVE2=sve2
USED     := $(foreach row,$(FEATURES),$(foreach macro,$(firstword $(subst =, ,$(row))),$(if \
            $(filter __$(macro) __$(macro)__,$(MACROS)),$(lastword $(subst =, ,$(row))))))
MUST_HAVE := $(if $(USED),$(shell echo $(USED) | tr A-Z a-z))

# --- How it is compiled -------------------------------------------------------------------------------------------
# Host and device must round alike, so a*b+c must never become a fused multiply-add by itself. -std=c11 (not gnu11)
# already says so; -ffp-contract=off says it again where it can be seen.
# XGSW_SHARED is how C spells functions that nvcc compiles too (there: static inline __host__ __device__).
# Functions in a table share their parameters, and not each needs all. MPICH's header makes gcc warn of every
# MPI_STATUSES_IGNORE, hence the exception for it.

OPTIMIZE := $(if $(filter 1,$(DEBUG)),-g -O1 -fno-omit-frame-pointer -fsanitize=address$(,)undefined \
              -fsanitize=float-cast-overflow -fno-sanitize-recover=all -DBUILD_DEBUG=1,-O3 -DBUILD_DEBUG=0)
CFLAGS   := -std=c11 -D_GNU_SOURCE $(OPTIMIZE) -march=$(MARCH) -fopenmp -fno-math-errno -ffp-contract=off \
            -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers -Wshadow -Wconversion \
            $(if $(filter 1,$(WERROR)),-Werror) \
            $(if $(findstring MPICH,$(MPI_NAME)),-Wno-stringop-overflow)
CPPFLAGS := -Isrc -DXGSW_SHARED="static inline" -DXGSW_EXTERN=extern $(HDF5_CFLAGS) $(call FROM_DIR,$(ONEDNN_DIR)) \
            $(foreach folder,$(NCCL_DIR) $(CUDNN_DIR) $(CUDA_FROM),$(call FROM_DIR,$(folder)))
LIBS     := $(HDF5_LIBS) $(call LIBS_DIR,$(ONEDNN_DIR)) -ldnnl -lm
# In a bundle, the program and all libraries search lib/, lib/absent/ (run/bundle) and MPI's mpi/lib/.
LIBS     += $(if $(filter 1,$(PORTABLE)),-Wl$(,)--disable-new-dtags -Wl$(,)-rpath$(,)$(subst $() ,:,$(foreach folder,\
              lib lib/absent mpi/lib,'$$ORIGIN/$(folder)' '$$ORIGIN/../$(folder)')))
COMPILE   = $(MPICC) $(CFLAGS) $(CPPFLAGS) -MMD -MP -c
# The CUDA runtime is linked in; cuBLASLt, NCCL, cuDNN and NVML are loaded by the run that needs them.
CUDA_FLAGS := -DXGSW_CUBLASLT='"libcublasLt.so.$(firstword $(subst ., ,$(NVCC_SAYS)))"' \
              -DXGSW_NCCL='"libnccl.so.2"' -DXGSW_CUDNN='"libcudnn.so.9"' -DXGSW_NVML='"libnvidia-ml.so.1"'
CUDA_LIBS  := $(if $(NVCC),-L$(CUDA_FROM)/lib64 -L$(CUDA_FROM)/lib -lcudart_static -ldl -lpthread -lrt \
               -Wl$(,)-rpath$(,)'$$ORIGIN/lib'$(subst $() ,,$(foreach folder,$(CUDA_FROM)/lib64 $(CUDA_FROM)/lib \
               $(addsuffix /lib,$(NCCL_DIR) $(CUDNN_DIR)),:$(folder))))
NVCC_FLAGS := -std=c++17 -O3 --fmad=false $(if $(filter 1,$(WERROR)),-Werror all-warnings) -Xptxas -v \
              -Xcompiler -Wall,-Wextra,-fno-exceptions,-fno-threadsafe-statics \
              $(foreach arch,$(CUDA_ARCH),-gencode arch=compute_$(arch),code=sm_$(arch)) \
              $(foreach arch,$(CUDA_PTX),-gencode arch=compute_$(arch),code=compute_$(arch)) \
              -DXGSW_PTX=$(or $(CUDA_PTX),0) \
              -DXGSW_SHARED="static inline __host__ __device__" -DXGSW_EXTERN='extern "C"' -Isrc

# Variants are whole files: cuda_absent.c stands in for all others of machine/cuda/, cudnn_absent.c for cudnn*.c,
# nvtx_absent.c for nvtx.c; one oneDNN interface.
ONEDNNS := $(wildcard src/machine/host/products/onednn_v*.c)
ONEDNN  := $(filter %/onednn_v$(ONEDNN_MAJOR).c,$(ONEDNNS))
ALL_C   := $(sort $(shell find src -name "*.c"))
CUDNN   := $(wildcard src/machine/cuda/cudnn/*.c)
NVTX    := $(wildcard $(addsuffix /nvtx3/nvToolsExt.h,$(CUDA_FROM:%=%/include) /usr/include /usr/local/include))
NO_NVTX := src/machine/ranges/$(if $(NVTX),nvtx_absent.c,nvtx.c)
ABSENT  := $(NO_NVTX) \
           $(if $(NVCC),%/cuda_absent.c $(if $(HAS_CUDNN),%/cudnn_absent.c,$(filter-out %/cudnn_absent.c,$(CUDNN))),\
             $(filter-out %/cuda_absent.c,$(filter src/machine/cuda/%,$(ALL_C))))
SOURCES := $(filter-out $(ABSENT) $(ONEDNNS),$(ALL_C)) $(ONEDNN)
KERNELS := $(if $(NVCC),$(sort $(shell find src/machine/cuda -name "*.cu")))
OBJECTS := $(SOURCES:%.c=$(BUILD)/%.o) $(KERNELS:%.cu=$(GPU_BUILD)/%.cu.o)
PARTS   := $(filter-out $(BUILD)/src/main.o,$(OBJECTS)) $(BUILD)/build_info.o
TEST_C  := $(sort $(shell find validation -name "*.c"))
UNIT_C  := $(filter validation/units/%,$(TEST_C))
BENCH_C := $(filter validation/bench/%,$(TEST_C))
FUZZ_C  := $(filter validation/fuzz/%,$(TEST_C))
# All others are libraries that tests preload into a run.
SHIM_C  := $(filter-out $(UNIT_C) $(BENCH_C) $(FUZZ_C) validation/emulator/% validation/cuda/tests.c,$(TEST_C))
FUZZING := $(wildcard $(shell clang -print-resource-dir 2>/dev/null)/lib/linux/libclang_rt.fuzzer-$(shell uname -m).a)
NO_UNIT := $(if $(HAS_CUDNN),,$(filter %/cudnn_kernels.c,$(UNIT_C)))
LEFT_OUT = $(foreach file,$(NO_UNIT),$(file) (no cudnn_backend.h)) \
           $(if $(FUZZING),,$(foreach file,$(FUZZ_C),$(file) (no clang with libFuzzer)))
UNITS   := $(patsubst %.c,$(BUILD)/units/%,$(notdir $(filter-out $(NO_UNIT),$(UNIT_C))))
BENCHES := $(BENCH_C:validation/bench/%.c=$(BUILD)/bench/%)
FUZZERS := $(if $(FUZZING),$(FUZZ_C:validation/fuzz/%.c=build/fuzz/fuzz_%))
SHIMS   := $(SHIM_C:validation/%.c=$(BUILD)/shims/%.so)
CURVES  := $(patsubst validation/%.dat,build/%.curve,$(filter-out %-fp8.dat,$(wildcard validation/float64/*.dat)))
# Unit tests that `make check-cuda` and run/gpu-acceptance run, some of them the emulator's too.
CUDA_UNITS = $(if $(NVCC),$(shell \
               (validation/suite cuda; sed -n 's/^[a-z0-9-]* *[0-9]* check //p' validation/cuda/acceptance.list) \
               | sed -n 's|^\([a-z_0-9]*\)\( .*\)*$$|$(BUILD)/units/\1|p' | sort -u))
CUDA_NAMES = $(notdir $(CUDA_UNITS))

# --- Targets ------------------------------------------------------------------------------------------------------

.PHONY: emulator all objects run check check-full check-long check-cuda bundle bundle-parts install bench \
        tests tests-full tests-long programs units
.PHONY: format clean help found missing FORCE
.DELETE_ON_ERROR:
all: $(PROGRAM) ## build ./xgsw (the default); installs nothing

run: ## install what is missing, build, run the default deck here (NP ranks)
	@run/setup run
	@$(MAKE) all
	@run/local $(addprefix -n ,$(NP)) -x ./$(PROGRAM)

check: ## install what tests need, build, run each test in its short form
check-full: ## the same and more, in full: what CI runs
check-long: ## the tests that take hours
check check-full check-long:
	@run/setup check
	@$(MAKE) $(subst check,tests,$@)

tests tests-full tests-long: all programs
	@BUILD=$(BUILD) XGSW=./$(PROGRAM) PROVE='$(PROVE)' \
	  validation/run_suite $(or $(patsubst tests-%,%,$(filter tests-%,$@)),check)

check-cuda: all $(CUDA_UNITS) ## run the tests for GPUs on those of this machine; without a GPU it fails
	@BUILD=$(BUILD) XGSW=./$(PROGRAM) PROVE='$(PROVE)' validation/cuda/check

bundle: ## install what is missing, lay out a folder (BUNDLE) that runs on nodes without packages
	@run/setup bundle
	@$(MAKE) PORTABLE=1 MARCH=$(BUNDLE_MARCH) bundle-parts
	@run/bundle -o $(BUNDLE) -x build/portable/xgsw $(if $(filter 1,$(BUNDLE_CUDA)),-c $(CUDA_FROM)) \
	  $(if $(NVCC),-v $(NVCC_SAYS) -t build/portable/$(notdir $(MPICC))/units/tests $(CUDA_NAMES))

objects: $(SOURCES:%.c=$(BUILD)/%.o) # every C file, compiled: with a cross compiler nothing can be linked

install: all ## install program, decks, launchers and a module file below PREFIX, a path that all nodes see
	@run/install -x ./$(PROGRAM) $(if $(DESTDIR),-d $(DESTDIR)) $(PREFIX)

bundle-parts: $(PROGRAM) $(if $(NVCC),$(BUILD)/units/tests) $(CURVES)

bench: all $(BENCHES) ## the speed of each family on this host, as a ratio to sgemm
	@XGSW=./$(PROGRAM) BUILD=$(BUILD) validation/bench/run

units: $(UNITS) $(SHIMS)

programs: units emulator $(BENCHES) $(FUZZERS) # every program below validation/
	$(if $(strip $(LEFT_OUT)),@echo 'left out: $(strip $(LEFT_OUT))')

emulator: ## build the CUDA machine for the tests' emulator of a GPU (build/emulator)

format: ## lay out the sources as .clang-format says
	$(Q)clang-format -i $(shell find src validation -name "*.[ch]" -o -name "*.cu" -o -name "*.cuh" -o -name "*.cpp")

clean: ## remove everything that was built
	rm -rf build xgsw xgsw-debug

help: ## print this
	@awk -F ' *## |#  *| *[?:]= *' '/^[a-z -]+:.*## / { sub(/:.*/, "", $$1); printf "  make %-18s %s\n", $$1, $$2 } \
	  /^[A-Z_0-9]+ *[?]=.*#/ { printf "  make %-18s %s\n", $$1 "=" $$2, $$3 }' Makefile

missing: # for run/setup: the names of missing libraries, cmocka included
	@echo $(MISSING) $(if $(call version,cmocka),,cmocka)

define NEEDS
xgsw needs $(MISSING). Not found here, looking with $(MPICC).
On Debian and Ubuntu run/setup installs it. `make help` shows how to point at other places
(openmp: the compiler that $(MPICC) calls has no <omp.h>; for clang it is in libomp-dev)
endef

found: # says what this build uses, or stops
	$(if $(MISSING),$(error $(NEEDS)))
	$(if $(ONEDNN),,$(error onednn_v$(ONEDNN_MAJOR).c is not written))
	@printf '%-8s%s\n' MPI '$(MPI_NAME)' HDF5 '$(call version,hdf5)' oneDNN '$(call version,onednn)' \
	  CUDA '$(if $(NVCC),$(NVCC_SAYS) for $(CUDA_ARCH)$(CUDA_PTX:%=$(,) PTX of %)$(if $(HAS_CUDNN),$(,) \
	  cuDNN),none$(,) builds without it)' \
	  NVTX '$(if $(NVTX),header found,none$(,) profilers see no ranges)' \
	  builds './$(PROGRAM) for $(MARCH) in $(BUILD)$(if $(filter 1,$(DEBUG)), with sanitizers)'

# --- Rules --------------------------------------------------------------------------------------------------------
# Files written by `keep` change only when their text does. So a new flag or another MPI rebuilds, and nothing else.

keep = @mkdir -p $(@D); printf '%s\n' $1 | cmp -s - $@ || printf '%s\n' $1 > $@

$(BUILD)/flags: FORCE | found
	$(call keep,'$(COMPILE) $(LIBS) $(CUDA_LIBS)' '$(MPI_SHOW)' '$(COMPILER)')

$(GPU_BUILD)/kernel_flags: FORCE | found
	$(call keep,'$(subst ",,$(subst ',,$(NVCC) $(NVCC_FLAGS)))' '$(NVCC_SAYS)')

build/$(PROGRAM).linked: FORCE | found
	$(call keep,'$(BUILD)')

$(BUILD)/build_info.c: FORCE | found
	$(call keep,'/* Written by the Makefile. */' '#include "base/build_info.h"' \
	  'const char build_commit[] = "$(COMMIT)";' 'const int build_dirty = $(DIRTY);' \
	  'const int build_debug = BUILD_DEBUG;' 'const char build_flags[] = "$(CFLAGS)";' \
	  'const char build_needs[] = "$(MUST_HAVE)";' \
	  'const char build_compiler[] = "$(COMPILER)";' 'const char build_mpi[] = "$(MPI_NAME)";' \
	  'const char build_date[] = BUILD_DATE;'$(if $(filter 1,$(DEBUG)), '' \
	  '/* MPI libraries leak; CUDA maps memory where the sanitizer keeps a gap; GCC 14 aligns no AVX-512 vectors on the' \
	  ' * stack that the sanitizer makes to find uses after return. */' \
	  'const char *__asan_default_options(void);' \
	  'const char *__asan_default_options(void)' \
	  '{ return "detect_leaks=0:protect_shadow_gap=0:detect_stack_use_after_return=0"; }'))

# Compiled after all else, so that its date is that of the build.
$(BUILD)/build_info.o: $(BUILD)/build_info.c $(OBJECTS)
	$(Q)$(COMPILE) -DBUILD_DATE='"$(shell date -u +%Y-%m-%dT%H:%M:%SZ)"' $< -o $@

$(BUILD)/src/%.o: src/%.c $(BUILD)/flags
	@mkdir -p $(@D); echo '  compile $<'
	$(Q)$(COMPILE) $< -o $@

# It runs on every processor of the architecture, to say what this one lacks.
$(BUILD)/src/base/processor.o: private COMPILE := $(filter-out -march=%,$(COMPILE))

$(addprefix $(BUILD)/src/machine/cuda/,device/libraries.o cudnn/cudnn_graph.o device/nvml.o): CPPFLAGS += $(CUDA_FLAGS)

# What ptxas says of each kernel is read by validation/cuda/machine_code.t.
$(GPU_BUILD)/src/%.cu.o: src/%.cu $(GPU_BUILD)/kernel_flags
	@mkdir -p $(@D); echo '  compile $<'
	$(Q)$(NVCC) $(NVCC_FLAGS) -MMD -MP -c $< -o $@ 2>$(@:.o=.ptxas) || { cat $(@:.o=.ptxas) >&2; exit 1; }

$(PROGRAM): $(BUILD)/src/main.o $(PARTS) build/$(PROGRAM).linked
	@echo '  link    $@'
	$(Q)$(MPICC) $(CFLAGS) $(filter %.o,$^) $(LIBS) $(CUDA_LIBS) -o $@

# A test is built by its name, wherever in validation/units or the emulator's tests it lies.
# Tests of operations see each one before the machine does.
vpath %.c $(sort $(dir $(UNIT_C))) validation/emulator/tests
$(addprefix $(BUILD)/units/,operation% shadow): WRAP := -Wl,--wrap=op_submit
$(BUILD)/units/subnormals: WRAP := -Wl,--wrap=onednn_multiply,--wrap=host_cross_entropy
$(BUILD)/units/%: %.c $(PARTS) $(BUILD)/flags
	@mkdir -p $(@D); echo '  test    $<'
	$(Q)$(MPICC) $(CFLAGS) -Ivalidation $(CPPFLAGS) -MMD -MP $< $(filter %.o,$^) $(LIBS) $(CUDA_LIBS) $(WRAP) \
	  -lcmocka -o $@

# The bundle's tests are one program (validation/cuda/tests.c): many programs would hold the kernels as often.
$(BUILD)/units/%.test.o: %.c $(BUILD)/flags
	@mkdir -p $(@D); echo '  test    $<'
	$(Q)$(COMPILE) -Ivalidation $< -o $@
	$(Q)objcopy --redefine-sym main=main_$* --redefine-sym __wrap_op_submit=submit_$* $@
$(BUILD)/units/tests: WRAP := -Wl,--wrap=op_submit
$(BUILD)/units/tests: validation/cuda/tests.c $(CUDA_NAMES:%=$(BUILD)/units/%.test.o) $(PARTS) $(BUILD)/flags
	@echo '  link    $@'
	$(Q)$(MPICC) $(CFLAGS) $(CPPFLAGS) -DTESTS="$(foreach name,$(CUDA_NAMES),TEST($(name)))" $< $(filter %.o,$^) \
	  $(LIBS) $(CUDA_LIBS) $(WRAP) -lcmocka -o $@

$(BUILD)/bench/%: validation/bench/%.c $(PARTS) $(BUILD)/flags
	@mkdir -p $(@D); echo '  bench   $<'
	$(Q)$(MPICC) $(CFLAGS) $(CPPFLAGS) -MMD -MP $< $(filter %.o,$^) $(LIBS) $(CUDA_LIBS) -o $@

# Without the MPI library where a shim does not call it: it is preloaded into shells, too.
$(BUILD)/shims/%.so: validation/%.c $(BUILD)/flags
	@mkdir -p $(@D); echo '  shim    $<'
	$(Q)$(MPICC) $(subst $(OPTIMIZE),-O1,$(CFLAGS)) $(HDF5_CFLAGS) -shared -fPIC -Wl,--as-needed $< -ldl -lm -o $@

# Fuzzers of the deck's parser and of the reader of --replay's files, with clang's libFuzzer and sanitizers.
FUZZED := $(filter src/plan/%,$(ALL_C)) $(addprefix src/machine/op/,op_rules.c limits.c tensor.c) \
          src/machine/prove/op_file.c src/machine/op/activity.c \
          $(filter-out %/processor.c,$(filter src/base/%,$(ALL_C)))
build/fuzz/fuzz_%: validation/fuzz/%.c $(FUZZED) $(shell find src/base src/plan src/machine -name "*.h")
	@mkdir -p $(@D); echo '  fuzzer  $<'
	$(Q)clang -std=c11 -D_GNU_SOURCE -O2 -g1 -fsanitize=fuzzer,address,undefined,float-cast-overflow \
	  -fno-sanitize-recover=all -DXGSW_SHARED="static inline" -DXGSW_EXTERN=extern -DBUILD_DEBUG=1 -Isrc -Ivalidation \
	  $< $(FUZZED) -lm -o $@

# The unit test float64 compares with what the float64 program makes of its decks.
$(BUILD)/units/float64 build/emulator/units/float64: | $(CURVES)
build/float64/%.curve: validation/float64/%.dat $(wildcard validation/float64/*.py)
	@mkdir -p $(@D); echo '  float64 $<'
	$(Q)/usr/bin/python3 -B validation/float64/float64.py $(@D) $<

# What was compiled from a source that has moved since is compiled anew from where that lies now.
src/%.c src/%.cu validation/%.c validation/%.cpp: ;
%.d: ;

-include $(OBJECTS:.o=.d) $(BUILD)/build_info.d $(UNITS:=.d) $(CUDA_UNITS:=.d) $(CUDA_UNITS:=.test.d)

# --- The tests' emulator of a GPU ---------------------------------------------------------------------------------

include validation/emulator/emulator.mk
