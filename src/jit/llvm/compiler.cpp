#include "smolder/jit/llvm/compiler.h"

#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/CodeGen/MachineModuleInfo.h>
#include <llvm/CodeGen/Passes.h>
#include <llvm/CodeGen/TargetPassConfig.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/MCContext.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/SmallVectorMemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>

#include <chrono>
#include <mutex>
#include <vector>

#include "smolder/core/counters.h"
#include "smolder/core/error.h"

namespace smolder::jit::cpu {

namespace {

/// Features that generated code for x86 uses without asking.
constexpr const char* kNeeded[] = {"avx2", "fma", "f16c", "bmi2"};
constexpr const char* kNeededV4[] = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"};

void initialize_targets() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
}

std::string join(const llvm::StringMap<bool>& features) {
  std::vector<std::string> list;
  for (const auto& f : features) list.push_back((f.second ? "+" : "-") + f.first().str());
  std::sort(list.begin(), list.end());
  std::string text;
  for (const std::string& f : list) text += (text.empty() ? "" : ",") + f;
  return text;
}

}  // namespace

Target host_target(const std::string& wanted) {
  const llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  const auto check = [&](const auto& needed, auto&& missing) {
    for (const char* f : needed) {
      if (!features.lookup(f)) missing(f);
    }
  };
  Target t{llvm::sys::getProcessTriple(), llvm::sys::getHostCPUName().str(), join(features)};
#if defined(__x86_64__)
  check(kNeeded, [&](const char* f) {
    raise<NotImplementedError>("generated code needs an x86-64-v3 processor; this one (", t.cpu, ") lacks ", f,
                               ". Set SMOLDER_BACKEND=interpret to run without generated code");
  });
  if (wanted == "native") return t;
  const bool v4 = wanted == "x86-64-v4";
  SMOLDER_CHECK(v4 || wanted == "x86-64-v3", ValueError, "SMOLDER_CPU must be native, x86-64-v3 or x86-64-v4, found '",
                wanted, "'");
  if (v4) {
    check(kNeededV4, [&](const char* f) {
      raise<ValueError>("SMOLDER_CPU=x86-64-v4, but this processor (", t.cpu, ") lacks ", f);
    });
  }
  return {t.triple, wanted, ""};
#else
  SMOLDER_CHECK(wanted == "native", ValueError, "SMOLDER_CPU must be native on this processor, found '", wanted, "'");
  return t;
#endif
}

/// LLVM's description of the target with the passes of one compilation at a time.
class Compiler::Machine {
 public:
  explicit Machine(const Target& t) {
    initialize_targets();
    std::string error;
    const llvm::Target* target = llvm::TargetRegistry::lookupTarget(t.triple, error);
    SMOLDER_CHECK(target, RuntimeError, "the code generator has no backend for ", t.triple, ": ", error);
    llvm::TargetOptions options;
    options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
    options.TrapUnreachable = false;
    machine_.reset(static_cast<llvm::LLVMTargetMachine*>(
        target->createTargetMachine(t.triple, t.cpu, t.features, options, llvm::Reloc::PIC_, llvm::CodeModel::Small,
                                    llvm::CodeGenOptLevel::Less, true)));
    SMOLDER_CHECK(machine_, RuntimeError, "the code generator cannot make code for ", t.triple, " ", t.cpu);
  }

  bool has(const char* feature) const {
    return machine_->getMCSubtargetInfo()->checkFeatures(std::string("+") + feature);
  }

  void prepare(llvm::Module& m) const {
    m.setDataLayout(machine_->createDataLayout());
    m.setTargetTriple(machine_->getTargetTriple().str());
  }

  /// LLVM's code generation without its passes over IR: the IR is written as it should run, and strength reduction
  /// alone would take longer than the rest of them and undo that.
  void generate(llvm::Module& m, llvm::raw_pwrite_stream& out, llvm::CodeGenFileType type) {
    llvm::legacy::PassManager passes;
    llvm::TargetPassConfig* config = machine_->createPassConfig(passes);
    config->setDisableVerify(true);
    auto* info = new llvm::MachineModuleInfoWrapperPass(machine_.get());
    passes.add(config);
    passes.add(info);
    passes.add(llvm::createTargetTransformInfoWrapperPass(machine_->getTargetIRAnalysis()));
    config->addISelPrepare();
    const bool failed = (config->*(&Selection::addCoreISelPasses))();
    config->addMachinePasses();
    config->setInitialized();
    SMOLDER_INVARIANT(!failed && !machine_->addAsmPrinter(passes, out, nullptr, type, info->getMMI().getContext()));
    passes.add(llvm::createFreeMachineFunctionPass());
    passes.run(m);
  }

 private:
  struct Selection : llvm::TargetPassConfig {
    using TargetPassConfig::addCoreISelPasses;  // protected, and only called after all passes over IR
  };

  std::unique_ptr<llvm::LLVMTargetMachine> machine_;
};

/// Machines that nobody uses now: making one takes about a millisecond.
struct Compiler::Pool {
  std::mutex mutex;
  std::vector<std::unique_ptr<Machine>> idle;
};

/// A machine for one compilation.
class Compiler::Lease {
 public:
  explicit Lease(Compiler& c) : pool_(*c.pool_) {
    {
      const std::lock_guard lock(pool_.mutex);
      if (!pool_.idle.empty()) {
        machine_ = std::move(pool_.idle.back());
        pool_.idle.pop_back();
      }
    }
    if (!machine_) machine_ = std::make_unique<Machine>(c.target_);
  }
  ~Lease() {
    const std::lock_guard lock(pool_.mutex);
    pool_.idle.push_back(std::move(machine_));
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  Machine* operator->() { return machine_.get(); }

 private:
  Pool& pool_;
  std::unique_ptr<Machine> machine_;
};

Compiler::Compiler(Target target) : target_(std::move(target)), pool_(std::make_unique<Pool>()) {
  Lease machine(*this);
  if (llvm::Triple(target_.triple).isX86()) {
    traits_.masked_wide = true;  // vmaskmov
    traits_.masked_narrow = traits_.cheap_masks = traits_.gather = machine->has("avx512bw") && machine->has("avx512vl");
    traits_.streaming = true;
  }
}

Compiler::~Compiler() = default;

namespace {

std::string print(const llvm::Module& m) {
  std::string text;
  llvm::raw_string_ostream out(text);
  m.print(out, nullptr);
  return text;
}

}  // namespace

ObjectCode Compiler::compile(const Kernel& kernel) {
  const auto start = std::chrono::steady_clock::now();
  verify(kernel);
  ObjectCode code;
  llvm::LLVMContext context;
  context.setDiscardValueNames(debug_level() < 4);
  Lease machine(*this);
  const auto module = emit_module(context, kernel, traits_);
  machine->prepare(*module);
  code.source = jit::print(kernel);
  SMOLDER_INVARIANT(!llvm::verifyModule(*module, &llvm::errs()));
  if (debug_level() >= 4) debug(4, "llvm", "\n" + print(*module));
  if (debug_level() >= 7) debug(7, "assembly", "\n" + assembly(kernel));
  llvm::SmallString<0> bytes;
  llvm::raw_svector_ostream out(bytes);
  machine->generate(*module, out, llvm::CodeGenFileType::ObjectFile);
  code.bytes = bytes.str().str();
  code.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return code;
}

std::string Compiler::assembly(const Kernel& kernel) {
  llvm::LLVMContext context;
  Lease machine(*this);
  const auto module = emit_module(context, kernel, traits_);
  machine->prepare(*module);
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream out(text);
  machine->generate(*module, out, llvm::CodeGenFileType::AssemblyFile);
  return text.str().str();
}

}  // namespace smolder::jit::cpu
