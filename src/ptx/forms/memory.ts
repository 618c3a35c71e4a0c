/** The forms that move values: moves, loads, stores, atomics, copies, and what orders them. */
import { formList } from './form.js'
import { ANY } from './formulas.js'

const { forms, form, code, nothing } = formList()

export const MEMORY_FORMS = forms

code(`mov.T=${ANY}|pred|f16|bf16|f16x2|b128`, 'd:T a:T', 'mov')
code(`mov.vec=v2|v4.T=${ANY}`, 'd:T a:T', 'mov')
code('cvta.space=global|shared|shared::cta|shared::cluster|local|const|param.T=u32|u64', 'd:T a:T', 'cvta')
code('cvta.!to.space=global|shared|shared::cta|shared::cluster|local|const|param.T=u32|u64', 'd:T a:T', 'cvta')
code('isspacep.space=global|shared|shared::cta|shared::cluster|local|const|param', 'd:pred a:u64', 'isspacep')

const DATA = 'b8|b16|b32|b64|b128|u8|u16|u32|u64|s8|s16|s32|s64|f16|f16x2|bf16|bf16x2|f32|f64|pred'
const SPACE = '?space=global|shared|shared::cta|shared::cluster|local|const|param|param::entry|param::func'
const EVICT =
  '?L1=L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate.?L2=L2::evict_normal|L2::evict_first|L2::evict_last.?hint=L2::cache_hint.?fetch=L2::64B|L2::128B|L2::256B'
const SCOPE = '?scope=cta|cluster|gpu|sys'
code(
  `ld.?order=weak|volatile|relaxed|acquire|mmio.${SCOPE}.${SPACE}.?cop=ca|cg|cs|lu|cv.?nc.${EVICT}.?vec=v2|v4|v8.T=${DATA}`,
  'd:T a:address e?:b64',
  'load',
)
code(`ldu.?space=global.?vec=v2|v4.T=${DATA}`, 'd:T a:address', 'load')
code(
  `st.?order=weak|volatile|relaxed|release|mmio.${SCOPE}.${SPACE}.?cop=wb|cg|cs|wt.${EVICT}.?vec=v2|v4|v8.T=${DATA}`,
  'a:address b:T e?:b64',
  'store',
)
const ATOMIC_SPACE = '?space=global|shared|shared::cta|shared::cluster'
const ORDER = '?order=relaxed|acquire|release|acq_rel'
const HINT = '?hint=L2::cache_hint'
const ATOMIC_TYPES: readonly (readonly [operation: string, types: string])[] = [
  ['and|or|xor', 'b32|b64'],
  ['add', 'u32|s32|u64|s64|f32|f64'],
  ['min|max', 'u32|s32|u64|s64'],
  ['inc|dec', 'u32'],
]
for (const [operation, types] of ATOMIC_TYPES) {
  code(
    `atom.${ORDER}.${SCOPE}.${ATOMIC_SPACE}.op=${operation}.${HINT}.T=${types}`,
    'd:T a:address b:T e?:b64',
    'atomic',
  )
  code(
    `red.?order=relaxed|release.${SCOPE}.${ATOMIC_SPACE}.op=${operation}.${HINT}.T=${types}`,
    'a:address b:T e?:b64',
    'atomic',
  )
}
code(`atom.${ORDER}.${SCOPE}.${ATOMIC_SPACE}.op=exch.${HINT}.T=b32|b64|b128`, 'd:T a:address b:T e?:b64', 'atomic')
code(
  `atom.${ORDER}.${SCOPE}.${ATOMIC_SPACE}.op=cas.${HINT}.T=b16|b32|b64|b128`,
  'd:T a:address b:T c:T e?:b64',
  'atomic',
)
code(
  `atom.${ORDER}.${SCOPE}.${ATOMIC_SPACE}.op=add.noftz.${HINT}.T=f16|f16x2|bf16|bf16x2`,
  'd:T a:address b:T e?:b64',
  'atomic',
)
code(
  `red.?order=relaxed|release.${SCOPE}.${ATOMIC_SPACE}.op=add.noftz.${HINT}.T=f16|f16x2|bf16|bf16x2`,
  'a:address b:T e?:b64',
  'atomic',
)
code(`atom.${ORDER}.${SCOPE}.?space=global.op=add.${HINT}.vec=v2|v4.T=f32`, 'd:T a:address b:T e?:b64', 'atomic')
code(
  `red.?order=relaxed|release.${SCOPE}.?space=global.op=add.${HINT}.vec=v2|v4.T=f32`,
  'a:address b:T e?:b64',
  'atomic',
)
code(
  `atom.${ORDER}.${SCOPE}.?space=global.op=add|min|max.noftz.${HINT}.vec=v2|v4|v8.T=f16|bf16|f16x2|bf16x2`,
  'd:T a:address b:T e?:b64',
  'atomic',
)
code(
  `red.?order=relaxed|release.${SCOPE}.?space=global.op=add|min|max.noftz.${HINT}.vec=v2|v4|v8.T=f16|bf16|f16x2|bf16x2`,
  'a:address b:T e?:b64',
  'atomic',
)

nothing('prefetch.?space=global|local.L=L1|L2', 'a:address')
nothing('prefetch.?space=global.L=L2::evict_last|L2::evict_normal', 'a:address')
nothing('prefetchu.L1', 'a:address')
nothing('applypriority.?global.L2::evict_normal', 'a:address b:u32')
nothing('discard.?global.L2', 'a:address b:u32')
form(
  'createpolicy.!fractional.p=L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged.?s=L2::evict_first|L2::evict_unchanged.b64',
  'd:b64 a?:f32',
  '0L',
)
nothing('membar.level=cta|gl|sys', '')
nothing('fence.?order=sc|acq_rel|acquire|release.scope=cta|cluster|gpu|sys', '')
nothing('fence.!mbarrier_init.release.cluster', '')
code('nanosleep.T=u32', 'a:T', 'nanosleep')

code(
  'cp.!async.cop=ca|cg.shared.global.?hint=L2::cache_hint.?fetch=L2::64B|L2::128B|L2::256B',
  'a:address b:address c:u32 e?:b32 g?:b64',
  'copy',
)
code(
  'cp.!async.cop=ca|cg.shared::cta.global.?hint=L2::cache_hint.?fetch=L2::64B|L2::128B|L2::256B',
  'a:address b:address c:u32 e?:b32 g?:b64',
  'copy',
)
nothing('cp.!async.!commit_group', '')
nothing('cp.!async.!wait_group', 'a:u32')
nothing('cp.!async.!wait_all', '')
code('cp.!async.!mbarrier.!arrive.?noinc.?space=shared|shared::cta.b64', 'a:address', 'mbarrier')

const MBARRIER = '?space=shared|shared::cta'
code(`mbarrier.!op=init.${MBARRIER}.b64`, 'a:address b:u32', 'mbarrier')
code(`mbarrier.!op=inval.${MBARRIER}.b64`, 'a:address', 'mbarrier')
const MBARRIER_OF_CLUSTER = '?space=shared|shared::cta|shared::cluster'
code(
  `mbarrier.!op=arrive|arrive_drop.!?expect_tx.?noComplete.?sem=release|relaxed.?scope=cta|cluster.${MBARRIER_OF_CLUSTER}.b64`,
  'd:b64 a:address b?:u32',
  'mbarrier',
)
code(
  `mbarrier.!op=expect_tx|complete_tx.?sem=relaxed.?scope=cta|cluster.${MBARRIER_OF_CLUSTER}.b64`,
  'a:address b:u32',
  'mbarrier',
)
code(
  `mbarrier.!op=test_wait|try_wait.!?parity.?sem=acquire|relaxed.?scope=cta|cluster.${MBARRIER}.b64`,
  'd:pred a:address b:b64 c?:u32',
  'mbarrier',
)
form('mbarrier.!op=pending_count.b64', 'd:b32 a:b64', '(i32.wrap_i64 (i64.and a 0xfffffL))')
