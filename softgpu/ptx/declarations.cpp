// Spaces, types, alignments, dimensions and names of variables.
#include "softgpu/ptx/declarations.h"

namespace warpline::softgpu::ptx {

Space space_from(std::string_view word) {
    if (word == "global") return Space::global;
    if (word == "param") return Space::param;
    if (word == "shared") return Space::shared;
    if (word == "local") return Space::local;
    if (word == "const") return Space::constant;
    if (word == "reg") return Space::reg;
    if (word == "tex") return Space::tex;
    return Space::none;
}

// PTX ISA, "Fundamental Types": the alternate and packed formats live in .b registers.
bool is_fundamental(Type type) {
    switch (type) {
        case Type::f16:
        case Type::f16x2:
        case Type::f32:
        case Type::f64:
        case Type::pred:
        case Type::b128:
        case Type::texref:
        case Type::samplerref:
        case Type::surfref: return true;
        default: return type <= Type::b64;
    }
}

bool DeclarationReader::alignment(uint32_t& value) {
    Location at = token().at();
    if (!expect_u32(value)) return false;
    if (value == 0 || (value & (value - 1)) != 0) return error(DiagnosticKind::type, at, "alignment must be a power of two");
    return true;
}

bool DeclarationReader::attribute_list(std::vector<std::string_view>& out) {
    advance();
    if (!expect('(')) return false;
    do {
        const char* begin = token().begin;
        const char* end = begin;
        size_t depth = 0;
        while (!at_end() && (depth > 0 || (!is(',') && !is(')')))) {
            if (is('(')) depth++;
            if (is(')')) depth--;
            end = lexer().position();
            advance();
        }
        if (begin == end) return unexpected("an attribute");
        out.emplace_back(begin, static_cast<size_t>(end - begin));
    } while (accept(','));
    return expect(')');
}

// `.ptr [.space] [.align n]`, from the word on.
bool DeclarationReader::pointer(Shape& shape) {
    shape.is_ptr = true;
    advance();
    if (token().kind == TokenKind::dotted) {
        shape.ptr_space = space_from(token().text);
        if (shape.ptr_space != Space::none) advance();
    }
    if (!is_dotted("align")) return true;
    advance();
    return alignment(shape.ptr_alignment);
}

bool DeclarationReader::shape_word(Shape& shape, bool parameter) {
    std::string_view word = token().text;
    if (word == "align") {
        advance();
        shape.declared_alignment = true;
        return alignment(shape.alignment);
    }
    if (word == "attribute") {
        std::vector<std::string_view> attributes;
        Location at = token().at();
        if (!attribute_list(attributes)) return false;
        for (std::string_view attribute : attributes) {
            if (attribute == ".managed")
                shape.managed = true;
            else if (attribute.starts_with(".unified"))
                shape.unified = attribute;
            else
                return error(DiagnosticKind::syntax, at, "unknown attribute '" + std::string(attribute) + "'");
        }
        return true;
    }
    if (word == "ptr" && parameter && shape.type != Type::none) return pointer(shape);
    Mod mod = mod_from(word);
    if (mod == Mod::v2 || mod == Mod::v4 || mod == Mod::v8) {
        shape.vector = mod == Mod::v2 ? 2 : mod == Mod::v4 ? 4 : 8;
    } else if (mod != Mod::count && is_fundamental(to_type(mod)) && shape.type == Type::none) {
        shape.type = to_type(mod);
    } else {
        return unexpected("a type");
    }
    advance();
    return true;
}

bool DeclarationReader::shape(Shape& shape, bool parameter) {
    while (token().kind == TokenKind::dotted)
        if (!shape_word(shape, parameter)) return false;
    if (shape.type == Type::none) return unexpected("a type");
    if (shape.vector > 1 && uint64_t{bits_of(shape.type)} * shape.vector > 256)
        return error(DiagnosticKind::type, token().at(), "vector is too wide");
    uint32_t natural = bytes_of(shape.type) * shape.vector;
    if (!shape.declared_alignment) shape.alignment = natural;
    return true;
}

bool DeclarationReader::dimensions(Variable& variable) {
    while (accept('[')) {
        variable.is_array = true;
        if (variable.dims.size() >= Limits::k_dims) return error(DiagnosticKind::limit, token().at(), "too many dimensions");
        uint64_t count = 0;
        if (!is(']')) {
            Constant value;
            if (token().kind != TokenKind::integer) return unexpected("a size");
            if (!literal_value(token(), value)) return error("size is out of range");
            count = value.bits;
            advance();
        } else if (!variable.dims.empty()) {
            return error(DiagnosticKind::type, token().at(), "only the first dimension may be left open");
        }
        variable.dims.push_back(count);
        if (!expect(']')) return false;
    }
    return true;
}

// Sizes are products of numbers from the text: every step is checked.
bool DeclarationReader::finish_size(Variable& variable) {
    uint64_t size = uint64_t{bytes_of(variable.type)} * variable.vector;
    for (uint64_t dim : variable.dims) {
        if (dim != 0 && size > Limits::k_variable_bytes / dim)
            return error(DiagnosticKind::limit, variable.at, "variable '" + std::string(variable.name) + "' is too large");
        size *= dim;
    }
    variable.size_bytes = size;
    return true;
}

bool DeclarationReader::variable(const Shape& shape, Linkage linkage, Variable& out) {
    out.at = token().at();
    out.unit = unit();
    out.linkage = linkage;
    out.space = shape.space;
    out.type = shape.type;
    out.vector = shape.vector;
    out.managed = shape.managed;
    out.unified = shape.unified;
    out.alignment = shape.alignment;
    out.declared_alignment = shape.declared_alignment;
    out.is_ptr = shape.is_ptr;
    out.ptr_space = shape.ptr_space;
    out.ptr_alignment = shape.ptr_alignment;
    if (out.type == Type::pred && out.space != Space::reg)
        return error(DiagnosticKind::type, out.at, "a predicate must be a register");
    return expect_identifier(out.name) && dimensions(out) && finish_size(out);
}

bool DeclarationReader::variable_declaration(Linkage linkage, std::vector<Variable>& out) {
    Shape common;
    common.space = space_from(token().text);
    advance();
    if (!shape(common, false)) return false;
    do {
        Variable& added = out.emplace_back();
        if (!variable(common, linkage, added)) return false;
        if (accept('=') && !initialiser(added)) return false;
        bool open = added.is_array && added.size_bytes == 0;
        bool may_be_open = linkage == Linkage::external || added.space == Space::param;
        if (open && !may_be_open)
            return error(DiagnosticKind::type, added.at, "variable '" + std::string(added.name) + "' has incomplete type");
    } while (accept(','));
    return expect(';');
}

bool DeclarationReader::parameter(Variable& out) {
    Shape shape_of;
    if (token().kind != TokenKind::dotted) return unexpected("a parameter");
    shape_of.space = space_from(token().text);
    if (shape_of.space != Space::param && shape_of.space != Space::reg) return unexpected("'.param' or '.reg'");
    advance();
    return shape(shape_of, true) && variable(shape_of, Linkage::internal, out);
}

bool DeclarationReader::parameter_list(std::vector<Variable>& out) {
    if (!expect('(')) return false;
    if (accept(')')) return true;
    do {
        if (out.size() >= Limits::k_params) return error(DiagnosticKind::limit, token().at(), "too many parameters");
        if (!parameter(out.emplace_back())) return false;
    } while (accept(','));
    return expect(')');
}

}  // namespace warpline::softgpu::ptx
