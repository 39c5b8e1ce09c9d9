// Reads from PTX text what a loader needs: kernels with their parameters and bounds, and variables. Instructions are passed
// over. [PTX ISA 9.0: 4.4 module directives, 5.2 types, 5.4 variables, 11 directives]
#include <algorithm>
#include <new>
#include <string_view>

#include "cuda/image/container.h"
#include "cuda/image/image.h"
#include "cuda/image/ptx_tokens.h"
#include "cuda/image/ptx_version.h"

namespace warpline::cuda::image {

namespace {

constexpr size_t k_max_kernel_params = 4096;
constexpr uint64_t k_max_variable_bytes = uint64_t{1} << 48;

// Size of an element of a fundamental type, 0 if the word is none.
uint32_t type_bytes(std::string_view type) {
    struct Row {
        std::string_view type;
        uint32_t bytes;
    };
    static constexpr Row k_types[] = {
        {".u64", 8},   {".b64", 8},    {".u32", 4},    {".f32", 4},        {".b32", 4},     {".b8", 1},
        {".u8", 1},    {".s8", 1},     {".s64", 8},    {".s32", 4},        {".f64", 8},     {".u16", 2},
        {".s16", 2},   {".b16", 2},    {".f16", 2},    {".bf16", 2},       {".f16x2", 4},   {".tf32", 4},
        {".b128", 16}, {".bf16x2", 4}, {".texref", 8}, {".samplerref", 8}, {".surfref", 8},
    };
    for (const Row& row : k_types)
        if (row.type == type) return row.bytes;
    return 0;
}

bool is_reference_type(std::string_view type) { return type == ".texref" || type == ".samplerref" || type == ".surfref"; }

// "[.align N] .type name[dimensions]" of a parameter or variable.
struct Declaration {
    std::string_view name;
    std::string_view type;
    uint64_t size_bytes = 0;
    uint32_t alignment_bytes = 0;
    bool managed = false;
};

class PtxReader {
public:
    explicit PtxReader(std::string_view ptx) : m_tokens(ptx) {}

    Result<ImageInfo> read() {
        if (!has_version()) return Error{Code::malformed, "PTX without .version"};
        while (!m_tokens.at_end()) WL_TRY(read_statement());
        if (m_info.arch == 0) return Error{Code::malformed, "PTX without .target"};
        uint64_t constant_bytes = 0;
        for (const Global& global : m_info.globals)
            if (global.space == Space::constant && !global.external) constant_bytes += global.size_bytes;
        for (Kernel& kernel : m_info.kernels)
            kernel.constant_bytes = static_cast<uint32_t>(std::min<uint64_t>(constant_bytes, UINT32_MAX));
        auto by_name = [](const auto& a, const auto& b) { return a.name < b.name; };
        std::sort(m_info.kernels.begin(), m_info.kernels.end(), by_name);
        std::sort(m_info.globals.begin(), m_info.globals.end(), by_name);
        return std::move(m_info);
    }

private:
    Error malformed(const char* what) const { return Error{Code::malformed, what, m_tokens.line()}; }

    bool has_version() const { return m_tokens.peek() == ".version"; }
    Result<void> read_statement();
    void read_target();
    Result<void> read_entry();
    Result<void> read_function();
    Result<void> read_params(Kernel& kernel);
    Result<void> read_bounds(Kernel& kernel);
    Result<void> read_variables(Space space);
    Result<Declaration> read_declaration_start();
    Result<void> read_declarator(Declaration& declaration);
    Result<uint64_t> read_initializer();
    Result<void> read_body(Kernel* kernel);
    Result<void> add_body_shared(Kernel& kernel);
    uint32_t read_number(uint32_t fallback);
    void read_extent(std::array<uint32_t, 3>& extent);
    void skip_parentheses();

    PtxTokens m_tokens;
    ImageInfo m_info;
    bool m_external = false;  // ".extern" came before in this statement
};

uint32_t PtxReader::read_number(uint32_t fallback) {
    uint64_t number = 0;
    if (!parse_ptx_number(m_tokens.peek(), number) || number > UINT32_MAX) return fallback;
    m_tokens.next();
    return static_cast<uint32_t>(number);
}

Result<void> PtxReader::read_statement() {
    std::string_view token = m_tokens.next();
    bool external = m_external;
    m_external = false;
    if (token == ".visible" || token == ".weak" || token == ".common") {
        m_external = external;
    } else if (token == ".extern") {
        m_external = true;
    } else if (token == ".entry") {
        return read_entry();
    } else if (token == ".func") {
        m_external = external;
        return read_function();
    } else if (token == ".global" || token == ".const") {
        m_external = external;
        return read_variables(token == ".const" ? Space::constant : Space::global);
    } else if (token == ".version") {
        m_info.ptx_version = parse_ptx_version(m_tokens.next());
    } else if (token == ".target") {
        read_target();
    } else if (token == "{") {
        return read_body(nullptr);
    }
    return {};
}

// ".target sm_90a, texmode_independent"
void PtxReader::read_target() {
    std::string_view name = m_tokens.peek();
    if (name.starts_with("sm_") || name.starts_with("compute_")) m_info.arch = target_of_name(m_tokens.next()).arch;
}

Result<void> PtxReader::read_entry() {
    Kernel kernel;
    kernel.name = m_tokens.next();
    if (kernel.name.empty()) return malformed("PTX .entry without a name");
    if (m_tokens.accept("(")) WL_TRY(read_params(kernel));
    WL_TRY(read_bounds(kernel));
    if (m_tokens.accept(";")) return {};  // a declaration only
    if (!m_tokens.accept("{")) return malformed("PTX .entry without a body");
    WL_TRY(read_body(&kernel));
    m_info.kernels.push_back(std::move(kernel));
    return {};
}

// ".func (.param .b32 result) name (parameters) …": only whether the module needs it from elsewhere matters.
Result<void> PtxReader::read_function() {
    bool external = m_external;
    m_external = false;
    if (m_tokens.accept("(")) skip_parentheses();
    std::string_view name = m_tokens.next();
    if (name == "vprintf") m_info.uses_printf = true;
    bool of_the_system = name == "vprintf" || name == "malloc" || name == "free" || name == "__assertfail" ||
                         name.starts_with("cuda") || name.starts_with("__cuda");
    if (external && !of_the_system) m_info.relocatable = true;
    if (m_tokens.accept("(")) skip_parentheses();
    while (!m_tokens.at_end()) {
        std::string_view token = m_tokens.next();
        if (token == ";") return {};
        if (token == "{") return read_body(nullptr);
    }
    return malformed("PTX .func cut short");
}

void PtxReader::skip_parentheses() {
    while (!m_tokens.at_end() && m_tokens.next() != ")") {
    }
}

Result<void> PtxReader::read_params(Kernel& kernel) {
    uint64_t offset = 0;
    if (m_tokens.accept(")")) return {};
    do {
        if (!m_tokens.accept(".param")) return malformed("PTX kernel parameter expected");
        if (kernel.params.size() == k_max_kernel_params) return malformed("PTX kernel with too many parameters");
        Declaration declaration = WL_TRY(read_declaration_start());
        WL_TRY(read_declarator(declaration));
        if (declaration.size_bytes > UINT32_MAX) return malformed("PTX kernel parameter too large");
        uint64_t alignment = std::max(declaration.alignment_bytes, 1u);
        offset = (offset + alignment - 1) / alignment * alignment;
        if (offset + declaration.size_bytes > UINT32_MAX) return malformed("PTX kernel parameters too large");
        kernel.params.push_back({static_cast<uint32_t>(kernel.params.size()), static_cast<uint32_t>(offset),
                                 static_cast<uint32_t>(declaration.size_bytes)});
        offset += declaration.size_bytes;
    } while (m_tokens.accept(","));
    if (!m_tokens.accept(")")) return malformed("PTX kernel parameters without an end");
    kernel.param_bytes = static_cast<uint32_t>(offset);
    return {};
}

void PtxReader::read_extent(std::array<uint32_t, 3>& extent) {
    extent = {read_number(0), 1, 1};
    for (size_t i = 1; i < 3 && m_tokens.accept(","); i++) extent[i] = read_number(1);
}

// Performance directives, between the parameters and the body.
Result<void> PtxReader::read_bounds(Kernel& kernel) {
    while (!m_tokens.at_end() && m_tokens.peek() != "{" && m_tokens.peek() != ";") {
        std::string_view token = m_tokens.next();
        if (token == ".maxntid") read_extent(kernel.max_threads);
        if (token == ".reqntid") read_extent(kernel.required_threads);
        if (token == ".reqnctapercluster") read_extent(kernel.cluster);
        if (token == ".minnctapersm") kernel.min_blocks = read_number(0);
        // ".pragma" ends with a semicolon of its own.
        if (token == ".pragma") {
            while (!m_tokens.at_end() && m_tokens.next() != ";") {
            }
        }
    }
    return {};
}

// What comes before the name: attributes, alignment, vector width, type, and the pointer annotation of parameters.
Result<Declaration> PtxReader::read_declaration_start() {
    Declaration declaration;
    uint32_t width = 1, element = 0;
    bool pointer = false;
    while (!m_tokens.at_end() && m_tokens.peek().front() == '.') {
        std::string_view token = m_tokens.next();
        if (token == ".align") {
            uint32_t alignment = read_number(0);
            if (alignment == 0 || (alignment & (alignment - 1)) != 0) return malformed("PTX alignment");
            if (!pointer) declaration.alignment_bytes = alignment;  // else it is that of what the pointer points at
        } else if (token == ".ptr") {
            pointer = true;
        } else if (token == ".attribute") {
            if (!m_tokens.accept("(")) return malformed("PTX attribute");
            while (!m_tokens.at_end() && m_tokens.peek() != ")") declaration.managed |= m_tokens.next() == ".managed";
            m_tokens.next();
        } else if (token == ".v2" || token == ".v4" || token == ".v8") {
            width = static_cast<uint32_t>(token[2] - '0');
        } else if (uint32_t bytes = type_bytes(token)) {
            declaration.type = token;
            element = bytes;
        }
    }
    if (element == 0) return malformed("PTX declaration without a type");
    declaration.size_bytes = uint64_t{element} * width;
    if (declaration.alignment_bytes == 0) declaration.alignment_bytes = element * width;
    return declaration;
}

// The name and its dimensions; sizes so far are those of one element. Dimensions left open come from the initialiser.
Result<void> PtxReader::read_declarator(Declaration& declaration) {
    declaration.name = m_tokens.next();
    if (declaration.name.empty()) return malformed("PTX declaration without a name");
    bool open = false;
    while (m_tokens.accept("[")) {
        if (m_tokens.accept("]")) {
            open = true;
            continue;
        }
        uint64_t count = 0;
        if (!parse_ptx_number(m_tokens.next(), count) || !m_tokens.accept("]")) return malformed("PTX array dimension");
        if (count != 0 && declaration.size_bytes > k_max_variable_bytes / count) return malformed("PTX variable too large");
        declaration.size_bytes *= count;
    }
    uint64_t values = 0;
    if (m_tokens.accept("=")) values = WL_TRY(read_initializer());
    if (open) declaration.size_bytes *= values;
    return {};
}

// Passes over an initialiser and counts its elements on the outermost level.
Result<uint64_t> PtxReader::read_initializer() {
    uint64_t values = 1;
    size_t depth = 0;
    while (!m_tokens.at_end()) {
        std::string_view token = m_tokens.peek();
        if (depth == 0 && (token == "," || token == ";")) return values;
        m_tokens.next();
        if (token == "{" || token == "(") depth++;
        if ((token == "}" || token == ")") && depth > 0) depth--;
        if (token == "," && depth == 1) values++;
    }
    return malformed("PTX initialiser cut short");
}

Result<void> PtxReader::read_variables(Space space) {
    bool external = m_external;
    m_external = false;
    const Declaration start = WL_TRY(read_declaration_start());
    do {
        Declaration declaration = start;
        WL_TRY(read_declarator(declaration));
        if (external) m_info.relocatable = true;
        if (is_reference_type(declaration.type)) continue;
        Global global;
        global.name = declaration.name;
        global.size_bytes = declaration.size_bytes;
        global.alignment_bytes = declaration.alignment_bytes;
        global.space = space;
        global.managed = declaration.managed;
        global.external = external;
        m_info.globals.push_back(std::move(global));
    } while (m_tokens.accept(","));
    if (!m_tokens.accept(";")) return malformed("PTX variable without an end");
    return {};
}

Result<void> PtxReader::read_body(Kernel* kernel) {
    Result<void> problem;
    bool closed = m_tokens.skip_block([&](std::string_view directive) {
        if (kernel == nullptr || directive != ".shared" || !problem.ok()) return false;
        m_tokens.next();
        problem = add_body_shared(*kernel);
        return true;
    });
    WL_TRY(std::move(problem));
    if (!closed) return malformed("PTX body without an end");
    return {};
}

Result<void> PtxReader::add_body_shared(Kernel& kernel) {
    const Declaration start = WL_TRY(read_declaration_start());
    do {
        Declaration declaration = start;
        WL_TRY(read_declarator(declaration));
        uint64_t alignment = std::max(declaration.alignment_bytes, 1u);
        uint64_t total = (kernel.static_shared_bytes + alignment - 1) / alignment * alignment + declaration.size_bytes;
        if (total > UINT32_MAX) return malformed("PTX shared memory too large");
        kernel.static_shared_bytes = static_cast<uint32_t>(total);
    } while (m_tokens.accept(","));
    return {};
}

}  // namespace

Result<ImageInfo> read_ptx_info(std::string_view ptx) {
    try {
        return PtxReader(ptx).read();
    } catch (const std::bad_alloc&) {
        return Error{Code::alloc_failed, "no memory to read PTX"};
    }
}

}  // namespace warpline::cuda::image
