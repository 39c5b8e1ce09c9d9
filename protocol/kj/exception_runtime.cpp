// KJ's exception run time, reduced to what the serialisation half of Cap'n Proto needs.
//
// Debian's libkj.a keeps its exception callbacks in a thread-local variable compiled for executables (local-exec model), so its
// exception.o cannot become part of a shared object, and libcuda.so.1 must be one. Every symbol of exception.o that the rest of
// libkj and libcapnp refer to is defined here instead, so that the linker never takes that member. It also means that a
// malformed message costs one C++ exception and no stack walk inside somebody else's process.

#include <kj/debug.h>
#include <kj/exception.h>
#include <kj/function.h>

#include <cstdlib>
#include <cstring>
#include <exception>

namespace kj {

StringPtr trimSourceFilename(StringPtr filename) {
    const char* slash = strrchr(filename.cStr(), '/');
    return slash == nullptr ? filename : StringPtr(slash + 1);
}

StringPtr operator*(_::Stringifier, Exception::Type type) {
    static constexpr const char* k_names[] = {"failed", "overloaded", "disconnected", "unimplemented"};
    return k_names[static_cast<uint>(type)];
}

String operator*(_::Stringifier, const Exception& e) {
    return str(trimSourceFilename(e.getFile()), ":", e.getLine(), ": ", e.getType(), ": ", e.getDescription());
}

Exception::Exception(Type type, const char* file, int line, String description) noexcept
    : file(trimSourceFilename(file).cStr()), line(line), type(type), description(mv(description)), traceCount(0) {}

Exception::Exception(Type type, String file, int line, String description) noexcept
    : ownFile(mv(file)),
      file(trimSourceFilename(ownFile).cStr()),
      line(line),
      type(type),
      description(mv(description)),
      traceCount(0) {}

Exception::Exception(const Exception& other) noexcept
    : ownFile(other.ownFile == nullptr ? String() : heapString(other.ownFile)),
      file(other.ownFile == nullptr ? other.file : ownFile.cStr()),
      line(other.line),
      type(other.type),
      description(heapString(other.description)),
      traceCount(0) {}

Exception::~Exception() noexcept = default;

Exception::Context::Context(const Context& other) noexcept
    : file(other.file), line(other.line), description(heapString(other.description)) {}

void Exception::wrapContext(const char* file, int line, String&& description) {
    context = heap<Context>(file, line, mv(description), mv(context));
}

void Exception::extendTrace(uint, uint) {}
void Exception::truncateCommonTrace() {}
void Exception::addTrace(void*) {}

/// What is really thrown: an Exception that plain C++ code can catch as std::exception.
class ExceptionImpl : public Exception, public std::exception {
public:
    explicit ExceptionImpl(Exception&& other) : Exception(mv(other)) {}
    ExceptionImpl(const ExceptionImpl& other) : Exception(other) {}
    const char* what() const noexcept override { return getDescription().cStr(); }
};

class ExceptionCallback::RootExceptionCallback : public ExceptionCallback {
public:
    RootExceptionCallback() : ExceptionCallback(*this) {}
    void onRecoverableException(Exception&& exception) override { throw ExceptionImpl(mv(exception)); }
    void onFatalException(Exception&& exception) override { throw ExceptionImpl(mv(exception)); }
    void logMessage(LogSeverity, const char*, int, int, String&&) override {}
    StackTraceMode stackTraceMode() override { return StackTraceMode::NONE; }
    Function<void(Function<void()>)> getThreadInitializer() override {
        return [](Function<void()> thread_main) { thread_main(); };
    }
};

ExceptionCallback::ExceptionCallback() : next(getExceptionCallback()) {}
ExceptionCallback::ExceptionCallback(ExceptionCallback& next) : next(next) {}
ExceptionCallback::~ExceptionCallback() noexcept(false) = default;
void ExceptionCallback::onRecoverableException(Exception&& exception) { next.onRecoverableException(mv(exception)); }
void ExceptionCallback::onFatalException(Exception&& exception) { next.onFatalException(mv(exception)); }
void ExceptionCallback::logMessage(LogSeverity severity, const char* file, int line, int depth, String&& text) {
    next.logMessage(severity, file, line, depth, mv(text));
}
ExceptionCallback::StackTraceMode ExceptionCallback::stackTraceMode() { return next.stackTraceMode(); }
Function<void(Function<void()>)> ExceptionCallback::getThreadInitializer() { return next.getThreadInitializer(); }

ExceptionCallback& getExceptionCallback() {
    // Never destroyed: messages are decoded after main() has returned, too.
    static auto* root = new ExceptionCallback::RootExceptionCallback;
    return *root;
}

void throwFatalException(Exception&& exception, uint) {
    getExceptionCallback().onFatalException(mv(exception));
    abort();
}

void throwRecoverableException(Exception&& exception, uint) { getExceptionCallback().onRecoverableException(mv(exception)); }

ArrayPtr<void* const> getStackTrace(ArrayPtr<void*>, uint) { return nullptr; }
String getStackTrace() { return String(); }
String stringifyStackTrace(ArrayPtr<void* const>) { return String(); }

UnwindDetector::UnwindDetector() : uncaughtCount(std::uncaught_exceptions()) {}
bool UnwindDetector::isUnwinding() const { return std::uncaught_exceptions() > static_cast<int>(uncaughtCount); }
void UnwindDetector::catchExceptionsAsSecondaryFaults(_::Runnable& runnable) const {
    (void)_::runCatchingExceptions(runnable);  // a second fault while unwinding is dropped: the first one is the cause
}

namespace _ {

Maybe<Exception> runCatchingExceptions(Runnable& runnable) {
    try {
        runnable.run();
        return nullptr;
    } catch (Exception& e) {
        return Exception(mv(e));
    } catch (std::exception& e) {
        return Exception(Exception::Type::FAILED, "(unknown)", -1, heapString(e.what()));
    }
}

}  // namespace _
}  // namespace kj
