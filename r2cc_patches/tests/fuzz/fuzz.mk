# Fuzzing of the formats and of a live engine. Needs clang and its runtime (Debian: clang-14, libclang-rt-14-dev).
#
#   make fuzz SECONDS=60     each target so long, from the corpus in the repository; finds go to $(BUILD)/fuzz/found
#   make fuzz-if-possible    5 s each (longer in `make nightly`), or a line that says why not
#   make fuzz-seeds          writes the corpus anew, after a change of the wire
#
# tests/fuzz/found.tar.gz: what long runs found on top of the corpus (each reaches code that the others do not). `make fuzz`
# begins with it too; the plain test does not, since it would take a minute.
#   make fuzz-replay         the corpus as a plain test, with any compiler (part of `make test`)

FUZZ_CXX ?= $(firstword $(foreach c,clang++-14 clang++-15 clang++-16 clang++-17 clang++-18 clang++,$(shell command -v $(c) 2>/dev/null)))
FUZZ_TARGETS := wire engine
SECONDS ?= $(or $(FUZZ_SECONDS),5)
FUZZ_FLAGS := -std=c++17 -O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined \
  -fno-sanitize-recover=undefined -pthread -MMD -MP -DNCCL_OS_LINUX -Isrc -Itests $(NCCL_INC)

FUZZ_SRCS := $(CORE_SRCS) $(FAKE_SRCS)
fuzz_o = $(patsubst %.cc,$(BUILD)/fuzz/obj/%.o,$(1))
FUZZ_WORKS = $(FUZZ_CXX) && echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' \
  | $(FUZZ_CXX) -x c++ -fsanitize=fuzzer,address - -o /dev/null 2>/dev/null

.PHONY: fuzz fuzz-if-possible fuzz-seeds fuzz-replay
fuzz: $(foreach t,$(FUZZ_TARGETS),$(BUILD)/fuzz/fuzz_$(t))
	@for target in $(FUZZ_TARGETS); do \
	  mkdir -p "$(BUILD)/fuzz/found/$$target" "$(BUILD)/fuzz/corpus" || exit 1; \
	  tar -C "$(BUILD)/fuzz/corpus" -xzf tests/fuzz/found.tar.gz "$$target" || exit 1; \
	  echo "fuzzing $$target for $(SECONDS) s"; \
	  "$(BUILD)/fuzz/fuzz_$$target" -max_total_time=$(SECONDS) -timeout=20 -max_len=1600 -print_final_stats=1 -verbosity=0 \
	    -artifact_prefix="$(BUILD)/fuzz/found/$$target/" "$(BUILD)/fuzz/corpus/$$target" tests/fuzz/corpus/$$target \
	    > "$(BUILD)/fuzz/$$target.log" 2>&1 || { tail -60 "$(BUILD)/fuzz/$$target.log"; exit 1; }; \
	  grep -E 'number_of_executed_units|average_exec_per_sec' "$(BUILD)/fuzz/$$target.log"; \
	done

fuzz-if-possible:
	@if $(FUZZ_WORKS); then $(MAKE) fuzz SECONDS=$(SECONDS); \
	else echo "fuzzing skipped: no clang with libFuzzer (Debian: clang-14, libclang-rt-14-dev)"; fi

fuzz-replay: $(foreach t,$(FUZZ_TARGETS),$(BUILD)/replay_$(t))
	@for target in $(FUZZ_TARGETS); do "$(BUILD)/replay_$$target" tests/fuzz/corpus/$$target || exit 1; done

fuzz-seeds: $(BUILD)/fuzz_seeds
	rm -rf tests/fuzz/corpus
	"$(BUILD)/fuzz_seeds" tests/fuzz/corpus

$(BUILD)/fuzz/fuzz_%: $(call fuzz_o,$(FUZZ_SRCS)) $(STAMP) $(BUILD)/fuzz/obj/tests/fuzz/fuzz_%.o
	$(FUZZ_CXX) -fsanitize=fuzzer,address,undefined -o "$@" $^ -pthread -ldl
$(BUILD)/fuzz/obj/%.o: %.cc $(GEN)/nccl.h
	@mkdir -p "$(@D)"
	$(FUZZ_CXX) $(FUZZ_FLAGS) -c -o "$@" $<

FUZZ_PLAIN_O := $(call objects,CORE) $(call objects,FAKE) $(STAMP)
$(BUILD)/replay_%: $(FUZZ_PLAIN_O) $(OBJ)/tests/fuzz/fuzz_%.o $(OBJ)/tests/fuzz/replay_main.o
	$(CXX) $(SANITIZE) -o "$@" $^ -pthread -ldl
$(BUILD)/fuzz_seeds: $(FUZZ_PLAIN_O) $(OBJ)/tests/fuzz/seeds.o
	$(CXX) $(SANITIZE) -o "$@" $^ -pthread -ldl
$(OBJ)/tests/fuzz/%.o: OURS += -Itests
# Kept, though only pattern rules name them. Without names .SECONDARY would mean every file, made or not.
FUZZ_MAIN_O := $(foreach t,$(FUZZ_TARGETS),tests/fuzz/fuzz_$(t).o)
.SECONDARY: $(call fuzz_o,$(FUZZ_SRCS)) $(addprefix $(BUILD)/fuzz/obj/,$(FUZZ_MAIN_O)) $(addprefix $(OBJ)/,$(FUZZ_MAIN_O)) \
  $(OBJ)/tests/fuzz/replay_main.o
