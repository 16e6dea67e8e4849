# What is shipped: the objects that were tested, linked again into $(BUILD)/release. Their libstdc++ is inside, and they
# ask for no glibc newer than 2.31, whichever one they are linked with. Symbols lie aside, in $(BUILD)/release/debug.
#   make release

RELEASE := $(BUILD)/release
SHIPPED := libr2cc_net.so libr2cc_plan.so libr2cc_sim.so libr2cc_progress.so libr2cc_faults.so libr2cc_clock.so r2cc_bench \
  r2cc_sampler
RELEASE_O := $(OBJ)/release/old_symbols.o $(OBJ)/release/new_functions.o
START_O := $(OBJ)/release/start.o
OBJCOPY ?= objcopy
# Functions and data by the names that they have in glibc: old_symbols.S, new_functions.cc.
MOVED := $(shell sed -n 's/^  moved \([a-z_]*\),.*/\1/p' release/old_symbols.S)
WRAPPED := $(MOVED) fstatat stat lstat fstat fstat64 __libc_single_threaded arc4random
# An older glibc has these functions in libraries of their own, which a newer one has for old programs.
OF_LIBC = $(wildcard $(foreach name,libpthread.so.0 libdl.so.2,$(shell $(CXX) -print-file-name=$(name))))
SHIP = -static-libstdc++ $(WRAPPED:%=-Wl,--wrap=%) $(RELEASE_O) -Wl,--no-as-needed $(OF_LIBC) -Wl,--as-needed -lm \
  -Wl,--no-undefined -Wl,--exclude-libs,ALL -Wl,--build-id
comma := ,
SHIP_LIBRARY = $(CXX) -shared $(filter %.o,$^) $(SHIP) $(addprefix -Wl$(comma)--version-script=,$(filter %.map,$^)) -pthread
SHIP_PROGRAM = $(CXX) $(filter %.o,$^) $(SHIP) -Wl,--wrap=__libc_start_main $(START_O) -pthread

.PHONY: release
release: $(SHIPPED:%=$(RELEASE)/%)

$(OBJ)/release/%.o: release/%.S $(OBJ)/flags
	@mkdir -p "$(@D)"
	$(CXX) -c -o $@ $<
$(RELEASE)/whole/libr2cc_net.so: $(NET_O) $(FORK_O) src/exports.map
$(RELEASE)/whole/libr2cc_plan.so: $(call ours_o,$(PLAN_C_SRCS)) $(PLANNER_O) planner/exports.map
$(RELEASE)/whole/libr2cc_sim.so: $(call ours_o,$(SIM_C_SRCS) $(SIM_BENCH_SRCS)) $(call objects,SIM) $(PLANNER_O) sim/exports.map
$(RELEASE)/whole/libr2cc_progress.so: $(call ours_o,$(PROGRESS_SRCS) $(PROGRESS_BASE_SRCS)) progress/exports.map
$(RELEASE)/whole/libr2cc_faults.so: $(call ours_o,$(FAULTS_SRCS)) $(STAMP) faults/exports.map
$(RELEASE)/whole/libr2cc_clock.so: $(call ours_o,$(CLOCK_SRCS))
$(RELEASE)/whole/r2cc_bench: $(call objects,BENCH_LIB) $(call ours_o,bench/main.cc) $(PLANNER_O) $(AGREE_O)
$(RELEASE)/whole/r2cc_sampler: $(call ours_o,$(SAMPLER_SRCS))
$(SHIPPED:%=$(RELEASE)/whole/%): | $(RELEASE_O) $(START_O)
$(RELEASE)/whole/%.so:
	@mkdir -p "$(@D)"
	$(SHIP_LIBRARY) -Wl,-z,nodelete -o $@
$(RELEASE)/whole/%:
	@mkdir -p "$(@D)"
	$(SHIP_PROGRAM) -o $@
# The file that is loaded names the one with its symbols, which a debugger finds beside it or in .debug.
$(RELEASE)/%: $(RELEASE)/whole/%
	@mkdir -p "$(RELEASE)/debug"
	$(OBJCOPY) --only-keep-debug $< $(RELEASE)/debug/$*.debug
	$(OBJCOPY) --strip-unneeded --add-gnu-debuglink=$(RELEASE)/debug/$*.debug $< $@
