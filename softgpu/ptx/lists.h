#pragma once

// Words in rows:
// clang-format off

// The words of PTX ISA 9.0 as X macros: X(enumerator, "spelling"). One place for each word; the enums, the tables of spellings
// and the interning tables are all made from these lists.

// Base opcodes: the part before the first dot. What follows (".async.bulk.tensor") is modifiers.
#define WL_PTX_OPCODES(X) \
    X(abs, "abs") X(activemask, "activemask") X(add, "add") X(addc, "addc") X(alloca_, "alloca") X(and_, "and") \
    X(applypriority, "applypriority") X(atom, "atom") X(bar, "bar") X(barrier, "barrier") X(bfe, "bfe") X(bfi, "bfi") \
    X(bfind, "bfind") X(bmsk, "bmsk") X(bra, "bra") X(brev, "brev") X(brkpt, "brkpt") X(brx, "brx") X(call, "call") \
    X(clusterlaunchcontrol, "clusterlaunchcontrol") X(clz, "clz") X(cnot, "cnot") X(copysign, "copysign") X(cos, "cos") \
    X(cp, "cp") X(createpolicy, "createpolicy") X(cvt, "cvt") X(cvta, "cvta") X(discard, "discard") X(div, "div") \
    X(dp2a, "dp2a") X(dp4a, "dp4a") X(elect, "elect") X(ex2, "ex2") X(exit, "exit") X(fence, "fence") X(fma, "fma") \
    X(fns, "fns") X(getctarank, "getctarank") X(griddepcontrol, "griddepcontrol") X(isspacep, "isspacep") \
    X(istypep, "istypep") X(ld, "ld") X(ldmatrix, "ldmatrix") X(ldu, "ldu") X(lg2, "lg2") X(lop3, "lop3") X(mad, "mad") \
    X(mad24, "mad24") X(madc, "madc") X(mapa, "mapa") X(match, "match") X(max, "max") X(mbarrier, "mbarrier") \
    X(membar, "membar") X(min, "min") X(mma, "mma") X(mov, "mov") X(movmatrix, "movmatrix") X(mul, "mul") \
    X(mul24, "mul24") X(multimem, "multimem") X(nanosleep, "nanosleep") X(neg, "neg") X(not_, "not") X(or_, "or") \
    X(pmevent, "pmevent") X(popc, "popc") X(prefetch, "prefetch") X(prefetchu, "prefetchu") X(prmt, "prmt") X(rcp, "rcp") \
    X(red, "red") X(redux, "redux") X(rem, "rem") X(ret, "ret") X(rsqrt, "rsqrt") X(sad, "sad") X(selp, "selp") \
    X(set, "set") X(setmaxnreg, "setmaxnreg") X(setp, "setp") X(shf, "shf") X(shfl, "shfl") X(shl, "shl") X(shr, "shr") \
    X(sin, "sin") X(slct, "slct") X(sqrt, "sqrt") X(st, "st") X(stackrestore, "stackrestore") X(stacksave, "stacksave") \
    X(stmatrix, "stmatrix") X(sub, "sub") X(subc, "subc") X(suld, "suld") X(suq, "suq") X(sured, "sured") X(sust, "sust") \
    X(szext, "szext") X(tanh, "tanh") X(tcgen05, "tcgen05") X(tensormap, "tensormap") X(testp, "testp") X(tex, "tex") \
    X(tld4, "tld4") X(trap, "trap") X(txq, "txq") X(vabsdiff, "vabsdiff") X(vabsdiff2, "vabsdiff2") \
    X(vabsdiff4, "vabsdiff4") X(vadd, "vadd") X(vadd2, "vadd2") X(vadd4, "vadd4") X(vavrg2, "vavrg2") X(vavrg4, "vavrg4") \
    X(vmad, "vmad") X(vmax, "vmax") X(vmax2, "vmax2") X(vmax4, "vmax4") X(vmin, "vmin") X(vmin2, "vmin2") X(vmin4, "vmin4") \
    X(vote, "vote") X(vset, "vset") X(vset2, "vset2") X(vset4, "vset4") X(vshl, "vshl") X(vshr, "vshr") X(vsub, "vsub") \
    X(vsub2, "vsub2") X(vsub4, "vsub4") X(wgmma, "wgmma") X(wmma, "wmma") X(xor_, "xor")

// Types. They are also modifiers: the enum Mod begins with them, in this order.
#define WL_PTX_TYPES(X) \
    X(u8, "u8") X(u16, "u16") X(u32, "u32") X(u64, "u64") X(s8, "s8") X(s16, "s16") X(s32, "s32") X(s64, "s64") X(b8, "b8") \
    X(b16, "b16") X(b32, "b32") X(b64, "b64") X(b128, "b128") X(f16, "f16") X(f16x2, "f16x2") X(bf16, "bf16") \
    X(bf16x2, "bf16x2") X(f32, "f32") X(f32x2, "f32x2") X(f64, "f64") X(pred, "pred") X(tf32, "tf32") X(u16x2, "u16x2") \
    X(s16x2, "s16x2") X(u4, "u4") X(s4, "s4") X(u2, "u2") X(s2, "s2") X(b1, "b1") X(b4, "b4") X(b6, "b6") X(e4m3, "e4m3") \
    X(e5m2, "e5m2") X(e4m3x2, "e4m3x2") X(e5m2x2, "e5m2x2") X(e4m3x4, "e4m3x4") X(e5m2x4, "e5m2x4") X(e3m2, "e3m2") \
    X(e2m3, "e2m3") X(e2m1, "e2m1") X(e3m2x2, "e3m2x2") X(e2m3x2, "e2m3x2") X(e2m1x2, "e2m1x2") X(e3m2x4, "e3m2x4") \
    X(e2m3x4, "e2m3x4") X(e2m1x4, "e2m1x4") X(ue8m0, "ue8m0") X(ue8m0x2, "ue8m0x2") X(ue4m3, "ue4m3") \
    X(ue4m3x2, "ue4m3x2") X(texref, "texref") X(samplerref, "samplerref") X(surfref, "surfref")

// Everything else that can follow a dot in an opcode.
#define WL_PTX_MODIFIERS(X) \
    /* arithmetic */ \
    X(lo, "lo") X(hi, "hi") X(wide, "wide") X(cc, "cc") X(sat, "sat") X(satfinite, "satfinite") X(ftz, "ftz") \
    X(noftz, "noftz") X(rn, "rn") X(rz, "rz") X(rm, "rm") X(rp, "rp") X(rna, "rna") X(rs, "rs") X(rni, "rni") X(rzi, "rzi") \
    X(rmi, "rmi") X(rpi, "rpi") X(relu, "relu") X(oob, "oob") X(approx, "approx") X(full, "full") X(nan_, "NaN") \
    X(abs, "abs") X(xorsign, "xorsign") X(shiftamt, "shiftamt") X(clamp, "clamp") X(wrap, "wrap") X(l, "l") X(r, "r") \
    X(f4e, "f4e") X(b4e, "b4e") X(rc8, "rc8") X(rc16, "rc16") X(ecl, "ecl") X(ecr, "ecr") X(po, "po") X(shr7, "shr7") \
    X(shr15, "shr15") X(scaled, "scaled") X(n1_relu, "n1_relu") X(s2f6x2, "s2f6x2") \
    /* comparison and boolean */ \
    X(eq, "eq") X(ne, "ne") X(lt, "lt") X(le, "le") X(gt, "gt") X(ge, "ge") X(ls, "ls") X(hs, "hs") X(equ, "equ") \
    X(neu, "neu") X(ltu, "ltu") X(leu, "leu") X(gtu, "gtu") X(geu, "geu") X(num, "num") X(nan, "nan") X(and_, "and") \
    X(or_, "or") X(xor_, "xor") X(not_, "not") X(finite, "finite") X(infinite, "infinite") X(number, "number") \
    X(notanumber, "notanumber") X(normal, "normal") X(subnormal, "subnormal") \
    /* atomic and warp operations */ \
    X(add, "add") X(inc, "inc") X(dec, "dec") X(min, "min") X(max, "max") X(exch, "exch") X(cas, "cas") X(popc, "popc") \
    X(mul, "mul") X(sync, "sync") X(aligned, "aligned") X(arrive, "arrive") X(red, "red") X(wait, "wait") X(warp, "warp") \
    X(up, "up") X(down, "down") X(bfly, "bfly") X(idx, "idx") X(all, "all") X(any, "any") X(uni, "uni") X(ballot, "ballot") \
    X(elect, "elect") \
    /* state spaces, scopes, ordering, caches */ \
    X(reg, "reg") X(sreg, "sreg") X(const_, "const") X(global, "global") X(local, "local") X(param, "param") \
    X(param_entry, "param::entry") X(param_func, "param::func") X(shared, "shared") X(shared_cta, "shared::cta") \
    X(shared_cluster, "shared::cluster") X(tex, "tex") X(to, "to") X(generic, "generic") X(cta, "cta") \
    X(cluster, "cluster") X(gpu, "gpu") X(sys, "sys") X(gl, "gl") X(weak, "weak") X(relaxed, "relaxed") \
    X(acquire, "acquire") X(release, "release") X(acq_rel, "acq_rel") X(sc, "sc") X(volatile_, "volatile") X(mmio, "mmio") \
    X(proxy, "proxy") X(alias, "alias") X(async, "async") \
    X(tensormap, "tensormap") \
    X(tensormap_generic, "tensormap::generic") X(sync_restrict_shared_cta_cluster, "sync_restrict::shared::cta") \
    X(sync_restrict_shared_cluster, "sync_restrict::shared::cluster") X(async_generic, "async::generic") \
    X(mbarrier_init, "mbarrier_init") X(op_restrict_mbarrier_init, "op_restrict::mbarrier_init") X(ca, "ca") X(cg, "cg") \
    X(cs, "cs") X(lu, "lu") X(cv, "cv") X(wb, "wb") X(wt, "wt") X(nc, "nc") X(unified, "unified") X(l1, "L1") X(l2, "L2") \
    X(l1_evict_normal, "L1::evict_normal") X(l1_evict_unchanged, "L1::evict_unchanged") X(l1_evict_first, "L1::evict_first") \
    X(l1_evict_last, "L1::evict_last") X(l1_no_allocate, "L1::no_allocate") X(l2_evict_normal, "L2::evict_normal") \
    X(l2_evict_first, "L2::evict_first") X(l2_evict_last, "L2::evict_last") X(l2_evict_unchanged, "L2::evict_unchanged") \
    X(l2_cache_hint, "L2::cache_hint") X(l2_64b, "L2::64B") X(l2_128b, "L2::128B") X(l2_256b, "L2::256B") \
    X(level_evict_last, "level::evict_last") X(level_evict_normal, "level::evict_normal") \
    X(pack, "pack") X(mask, "mask") X(fractional, "fractional") X(range, "range") X(cvt, "cvt") \
    /* vectors, geometry, textures, surfaces */ \
    X(v2, "v2") X(v4, "v4") X(v8, "v8") X(d1, "1d") X(d2, "2d") X(d3, "3d") X(d4, "4d") X(d5, "5d") X(a1d, "a1d") \
    X(a2d, "a2d") X(cube, "cube") X(acube, "acube") X(ms2d, "2dms") X(ams2d, "a2dms") X(base, "base") X(level, "level") \
    X(grad, "grad") X(a, "a") X(b, "b") X(c, "c") X(d, "d") X(g, "g") X(p, "p") X(trap, "trap") \
    X(zero, "zero") X(width, "width") \
    X(height, "height") X(depth, "depth") X(channel_data_type, "channel_data_type") X(channel_order, "channel_order") \
    X(normalized_coords, "normalized_coords") X(array_size, "array_size") X(num_mipmap_levels, "num_mipmap_levels") \
    X(num_samples, "num_samples") X(memory_layout, "memory_layout") X(filter_mode, "filter_mode") \
    X(addr_mode_0, "addr_mode_0") \
    X(addr_mode_1, "addr_mode_1") X(addr_mode_2, "addr_mode_2") X(force_unnormalized_coords, "force_unnormalized_coords") \
    /* matrices */ \
    X(load, "load") X(store, "store") X(mma, "mma") X(row, "row") X(col, "col") X(trans, "trans") X(x1, "x1") X(x2, "x2") \
    X(x4, "x4") X(x8, "x8") X(x16, "x16") X(x32, "x32") X(x64, "x64") X(x128, "x128") X(m8n8, "m8n8") X(m16n8, "m16n8") \
    X(m8n16, "m8n16") X(m16n16, "m16n16") X(m8n8k4, "m8n8k4") X(m8n8k16, "m8n8k16") X(m8n8k32, "m8n8k32") \
    X(m8n8k128, "m8n8k128") X(m16n8k4, "m16n8k4") X(m16n8k8, "m16n8k8") X(m16n8k16, "m16n8k16") X(m16n8k32, "m16n8k32") \
    X(m16n8k64, "m16n8k64") X(m16n8k128, "m16n8k128") X(m16n8k256, "m16n8k256") X(m16n16k16, "m16n16k16") \
    X(m16n16k8, "m16n16k8") X(m32n8k16, "m32n8k16") X(m8n32k16, "m8n32k16") X(sp, "sp") \
    X(sp_ordered_metadata, "sp::ordered_metadata") X(block_scale, "block_scale") X(scale_vec_1x, "scale_vec::1X") \
    X(scale_vec_2x, "scale_vec::2X") X(scale_vec_4x, "scale_vec::4X") X(block16, "block16") X(block32, "block32") \
    X(kind_f16, "kind::f16") X(kind_tf32, "kind::tf32") X(kind_f8f6f4, "kind::f8f6f4") X(kind_i8, "kind::i8") \
    X(kind_mxf8f6f4, "kind::mxf8f6f4") X(kind_mxf4, "kind::mxf4") X(kind_mxf4nvf4, "kind::mxf4nvf4") \
    X(b6x16_p32, "b6x16_p32") X(b4x16_p64, "b4x16_p64") X(b8x16, "b8x16") \
    /* asynchronous copies and barriers */ \
    X(bulk, "bulk") X(reduce, "reduce") X(prefetch, "prefetch") X(tensor, "tensor") X(commit_group, "commit_group") \
    X(wait_group, "wait_group") X(wait_all, "wait_all") X(read, "read") X(bulk_group, "bulk_group") X(tile, "tile") \
    X(tile_gather4, "tile::gather4") X(tile_scatter4, "tile::scatter4") X(im2col, "im2col") X(im2col_w, "im2col::w") \
    X(im2col_w_128, "im2col::w::128") X(im2col_no_offs, "im2col_no_offs") X(multicast_cluster, "multicast::cluster") \
    X(mbarrier_complete_tx_bytes, "mbarrier::complete_tx::bytes") X(mbarrier_arrive_one, "mbarrier::arrive::one") \
    X(mbarrier, "mbarrier") X(noinc, "noinc") X(init, "init") X(inval, "inval") X(expect_tx, "expect_tx") \
    X(complete_tx, "complete_tx") X(arrive_drop, "arrive_drop") X(test_wait, "test_wait") X(try_wait, "try_wait") \
    X(pending_count, "pending_count") X(no_complete, "noComplete") X(parity, "parity") X(cp_mask, "cp_mask") \
    X(ignore_src, "ignore_src") X(launch_dependents, "launch_dependents") X(ld_reduce, "ld_reduce") X(st, "st") X(ld, "ld") \
    X(acc_f16, "acc::f16") X(acc_f32, "acc::f32") X(replace, "replace") X(cp_fenceproxy, "cp_fenceproxy") \
    X(global_address, "global_address") X(rank, "rank") X(box_dim, "box_dim") X(global_dim, "global_dim") \
    X(global_stride, "global_stride") X(element_stride, "element_stride") X(elemtype, "elemtype") \
    X(interleave_layout, "interleave_layout") X(swizzle_mode, "swizzle_mode") X(swizzle_atomicity, "swizzle_atomicity") \
    X(fill_mode, "fill_mode") X(b1024, "b1024") X(fence, "fence") X(try_cancel, "try_cancel") X(query_cancel, "query_cancel") \
    X(multicast_cluster_all, "multicast::cluster::all") X(is_canceled, "is_canceled") \
    X(get_first_ctaid, "get_first_ctaid") X(get_first_ctaid_x, "get_first_ctaid::x") \
    X(get_first_ctaid_y, "get_first_ctaid::y") \
    X(get_first_ctaid_z, "get_first_ctaid::z") \
    /* the remaining video forms and the fifth-generation tensor core */ \
    \
    X(mma_async, "mma_async") X(m64n8k16, "m64n8k16") X(alloc, "alloc") X(dealloc, "dealloc") \
    X(relinquish_alloc_permit, "relinquish_alloc_permit") X(cta_group_1, "cta_group::1") X(cta_group_2, "cta_group::2") \
    X(cp_, "cp") X(shift, "shift") X(commit, "commit") X(ws, "ws") X(pack_16b, "pack::16b") X(unpack_16b, "unpack::16b") \
    X(s16x64b, "16x64b") X(s16x128b, "16x128b") X(s16x256b, "16x256b") X(s32x32b, "32x32b") X(s16x32bx2, "16x32bx2") \
    X(s128x256b, "128x256b") X(s4x256b, "4x256b") X(s128x128b, "128x128b") X(s64x128b, "64x128b") X(s32x128b, "32x128b") \
    X(warpx2_02_13, "warpx2::02_13") X(warpx2_01_23, "warpx2::01_23") X(warpx4, "warpx4") \
    X(before_thread_sync, "fence::before_thread_sync") X(after_thread_sync, "fence::after_thread_sync") \
    X(wait_ld, "wait::ld") X(wait_st, "wait::st") X(ashift, "ashift") X(collector_a_fill, "collector::a::fill") \
    X(collector_a_use, "collector::a::use") X(collector_a_lastuse, "collector::a::lastuse") \
    X(collector_a_discard, "collector::a::discard") X(collector_b0_fill, "collector::b0::fill") \
    X(collector_b0_use, "collector::b0::use") X(collector_b0_lastuse, "collector::b0::lastuse") \
    X(collector_b0_discard, "collector::b0::discard") X(collector_b1_fill, "collector::b1::fill") \
    X(collector_b1_use, "collector::b1::use") X(collector_b1_lastuse, "collector::b1::lastuse") \
    X(collector_b1_discard, "collector::b1::discard") X(collector_b2_fill, "collector::b2::fill") \
    X(collector_b2_use, "collector::b2::use") X(collector_b2_lastuse, "collector::b2::lastuse") \
    X(collector_b2_discard, "collector::b2::discard") X(collector_b3_fill, "collector::b3::fill") \
    X(collector_b3_use, "collector::b3::use") X(collector_b3_lastuse, "collector::b3::lastuse") \
    X(collector_b3_discard, "collector::b3::discard")

// Special registers, without the leading '%'. Those with .x .y .z are one entry; the component is in the operand.
#define WL_PTX_SPECIAL_REGISTERS(X) \
    X(tid, "tid") X(ntid, "ntid") X(laneid, "laneid") X(warpid, "warpid") X(nwarpid, "nwarpid") X(ctaid, "ctaid") \
    X(nctaid, "nctaid") X(smid, "smid") X(nsmid, "nsmid") X(gridid, "gridid") X(is_explicit_cluster, "is_explicit_cluster") \
    X(clusterid, "clusterid") X(nclusterid, "nclusterid") X(cluster_ctaid, "cluster_ctaid") \
    X(cluster_nctaid, "cluster_nctaid") X(cluster_ctarank, "cluster_ctarank") X(cluster_nctarank, "cluster_nctarank") \
    X(lanemask_eq, "lanemask_eq") X(lanemask_le, "lanemask_le") X(lanemask_lt, "lanemask_lt") X(lanemask_ge, "lanemask_ge") \
    X(lanemask_gt, "lanemask_gt") X(clock, "clock") X(clock_hi, "clock_hi") X(clock64, "clock64") X(pm, "pm") \
    X(pm64, "pm64") X(envreg, "envreg") X(globaltimer, "globaltimer") X(globaltimer_lo, "globaltimer_lo") \
    X(globaltimer_hi, "globaltimer_hi") X(reserved_smem_offset_begin, "reserved_smem_offset_begin") \
    X(reserved_smem_offset_end, "reserved_smem_offset_end") X(reserved_smem_offset_cap, "reserved_smem_offset_cap") \
    X(reserved_smem_offset, "reserved_smem_offset") X(total_smem_size, "total_smem_size") \
    X(aggr_smem_size, "aggr_smem_size") X(dynamic_smem_size, "dynamic_smem_size") X(current_graph_exec, "current_graph_exec")
