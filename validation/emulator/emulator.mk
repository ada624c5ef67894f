# The emulator: src/ with machine/cuda/ in it, its kernels compiled as C++, against the fakes of validation/emulator.
#   make emulator            build/emulator/xgsw-emulator and the tests marked emulator or cuda in validation/tests.list
#   make emulator-parts      the two libraries alone: libxgsw.a, libemulator.a
#   make build/emulator/units/NAME    one test: NAME.c of validation/units, or NAME.c(pp) of validation/emulator/tests

EMULATOR          := build/emulator
EMULATOR_OPTIMIZE := -g1 -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize=vptr \
                     -fno-sanitize-recover=all -DBUILD_DEBUG=1
EMULATOR_CPPFLAGS := -Ivalidation/emulator/include -Ivalidation/emulator -Isrc $(HDF5_CFLAGS) \
                     $(call FROM_DIR,$(ONEDNN_DIR)) -DXGSW_CUBLASLT=NULL -DXGSW_NCCL=NULL -DXGSW_NVML=NULL -MMD -MP
EMULATOR_C        := $(MPICC) $(subst $(OPTIMIZE),$(EMULATOR_OPTIMIZE),$(CFLAGS)) -DXGSW_SHARED="static inline" \
                     -DXGSW_EXTERN=extern $(EMULATOR_CPPFLAGS)
EMULATOR_CXX      := $(MPICC) -x c++ -std=c++17 $(EMULATOR_OPTIMIZE) -march=$(MARCH) -fopenmp -fno-math-errno \
                     -ffp-contract=off -Wall -Wextra -Wshadow -Wno-unknown-pragmas $(filter -Werror,$(CFLAGS)) \
                     -DXGSW_SHARED="static inline" -DXGSW_EXTERN='extern "C"' -D__CUDA_ARCH_LIST__=900 -DXGSW_PTX=0 \
                     $(EMULATOR_CPPFLAGS)
# Each load and store of a kernel is a call, of followed.cpp.
EMULATOR_FOLLOWED := -fno-sanitize=address -fsanitize=thread --param tsan-instrument-func-entry-exit=0
EMULATOR_LIBS     := $(LIBS) -lboost_context -lstdc++ -ldl -rdynamic $(EMULATOR_LINK)

EMULATOR_ABSENT   := $(NO_NVTX) src/machine/cuda/cuda_absent.c $(ONEDNNS) $(filter-out %/cudnn_absent.c,$(CUDNN))
EMULATOR_SOURCES  := $(filter-out $(EMULATOR_ABSENT),$(ALL_C)) $(ONEDNN) \
                     $(sort $(shell find src/machine/cuda -name "*.cu"))
EMULATOR_OWN      := $(wildcard validation/emulator/*.cpp validation/emulator/*.c)
EMULATOR_TESTS    := $(wildcard validation/emulator/tests/*.c validation/emulator/tests/*.cpp)
EMULATOR_OBJECTS  := $(patsubst %,$(EMULATOR)/%.o,$(filter-out src/main.c,$(EMULATOR_SOURCES))) \
                     $(EMULATOR)/build_info.c.o
EMULATOR_UNITS    := $(addprefix $(EMULATOR)/units/,$(sort $(basename $(notdir $(EMULATOR_TESTS))) \
                     $(shell validation/suite all | sed -n 's/^\([a-z_0-9]*\) .*\(emulator\|cuda\).*/\1/p')))

.PHONY: emulator-parts emulator-units
emulator: $(EMULATOR)/xgsw-emulator emulator-units
emulator-units: $(EMULATOR_UNITS)
emulator-parts: $(EMULATOR)/libxgsw.a $(EMULATOR)/libemulator.a

$(EMULATOR)/flags: FORCE | found
	$(call keep,'$(subst ",,$(subst ',,$(EMULATOR_C) $(EMULATOR_CXX) $(EMULATOR_FOLLOWED) $(EMULATOR_LIBS)))' \
	  '$(MPI_SHOW)' '$(COMPILER)')

$(EMULATOR)/%.c.o: %.c $(EMULATOR)/flags
	@mkdir -p $(@D); echo '  emulate $<'
	$(Q)$(EMULATOR_C) -c $< -o $@

$(EMULATOR)/src/base/processor.c.o: private EMULATOR_C := $(filter-out -march=%,$(EMULATOR_C))

# Its header may lie with those that are faked. (private: else the flags' file, a prerequisite, would differ by goal.)
$(EMULATOR)/src/machine/ranges/nvtx.c.o: private EMULATOR_C += $(CUDA_FROM:%=-idirafter %/include)

$(EMULATOR)/%.cu.o: %.cu $(EMULATOR)/flags
	@mkdir -p $(@D); echo '  emulate $<'
	$(Q)$(EMULATOR_CXX) -c $< -o $@

# Warnings are nvcc's business.
$(EMULATOR)/src/%.cu.o: private EMULATOR_CXX += -Wno-extra -O2 $(EMULATOR_FOLLOWED)
$(EMULATOR)/validation/emulator/tests/%.cpp.o: private EMULATOR_CXX += -Wno-unused-parameter $(EMULATOR_FOLLOWED)

# What switches threads and follows loads and stores is called more often than all else, and is not what is tested.
$(patsubst %,$(EMULATOR)/validation/emulator/%.cpp.o,block fiber followed): \
  private EMULATOR_CXX += -O2 -fno-sanitize=all -fno-tree-loop-distribute-patterns

# The digest of the program's own file, twice a start: with sanitizers 2 s a rank. units/base/base.c tests it with them.
$(EMULATOR)/src/base/sha256.c.o: private EMULATOR_C += -O3 -fno-sanitize=all

$(EMULATOR)/%.cpp.o: %.cpp $(EMULATOR)/flags
	@mkdir -p $(@D); echo '  emulate $<'
	$(Q)$(EMULATOR_CXX) -c $< -o $@

$(EMULATOR)/build_info.c.o: $(BUILD)/build_info.c $(EMULATOR)/flags
	@mkdir -p $(@D)
	$(Q)$(EMULATOR_C) -DBUILD_DATE='"$(shell date -u +%Y-%m-%dT%H:%M:%SZ)"' -c $< -o $@

# Libraries, so that a test of a single kernel links what it calls and no more.
$(EMULATOR)/libxgsw.a: $(EMULATOR_OBJECTS)
	$(Q)rm -f $@ && ar rcs $@ $^
$(EMULATOR)/libemulator.a: $(EMULATOR_OWN:%=$(EMULATOR)/%.o)
	$(Q)rm -f $@ && ar rcs $@ $^

# The fakes of libraries are found by name when the program runs, so all of them are linked in. Tests that also run
# without the emulator know it by emulator_seed (units/test_length.h).
EMULATOR_PARTS = $(EMULATOR)/libxgsw.a -Wl,--whole-archive $(EMULATOR)/libemulator.a -Wl,--no-whole-archive \
                 -Wl,--require-defined=emulator_seed $(EMULATOR_LIBS)

$(EMULATOR)/xgsw-emulator: $(EMULATOR)/src/main.c.o $(EMULATOR)/libxgsw.a $(EMULATOR)/libemulator.a
	@echo '  link    $@'
	$(Q)$(EMULATOR_C) $< $(EMULATOR_PARTS) -o $@

$(EMULATOR)/units/%: $(EMULATOR)/validation/emulator/tests/%.cpp.o $(EMULATOR)/libxgsw.a $(EMULATOR)/libemulator.a
	@mkdir -p $(@D); echo '  link    $@'
	$(Q)$(EMULATOR_C) $< $(EMULATOR_PARTS) -lcmocka -o $@

# Tests that see each operation before the machine does.
$(addprefix $(EMULATOR)/units/,operation% shadow): WRAP := -Wl,--wrap=op_submit
$(EMULATOR)/units/shadow_machine: WRAP := -Wl,--wrap=cuda_swiglu_forward
# The plain versions in double that operations are compared with are the test's own: they need no sanitizers, and are
# the slow part.
$(addprefix $(EMULATOR)/units/,operation%): UNIT_FLAGS := -O3 -fno-sanitize=all
$(EMULATOR)/units/%: %.c $(EMULATOR)/libxgsw.a $(EMULATOR)/libemulator.a $(EMULATOR)/flags
	@mkdir -p $(@D); echo '  test    $<'
	$(Q)$(EMULATOR_C) -Ivalidation $(UNIT_FLAGS) -MT $@ -c $< -o $@.o
	$(Q)$(EMULATOR_C) $@.o $(EMULATOR_PARTS) $(WRAP) -lcmocka -o $@

.PRECIOUS: $(EMULATOR)/%.cpp.o
-include $(wildcard $(addsuffix *.d,$(EMULATOR)/*/ $(EMULATOR)/*/*/ $(EMULATOR)/*/*/*/ $(EMULATOR)/*/*/*/*/))
