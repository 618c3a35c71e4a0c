/** The forms of asynchronous copies in bulk: of bytes, and of tiles by tensor maps; and those that an mbarrier counts (st.async, red.async). */
import { formList } from './form.js'

const { forms, code, nothing } = formList()

export const COPY_FORMS = forms

const COUNTED = 'done=mbarrier::complete_tx::bytes'
const HINT = '?hint=L2::cache_hint'

code(
  `cp.!async.!bulk.dst=shared::cluster.src=global.${COUNTED}.?multicast=multicast::cluster.${HINT}`,
  'a:address b:address c:u32 m:address n?:b16 h?:b64',
  'asynchronous',
)
code(
  `cp.!async.!bulk.dst=shared::cta.src=global.${COUNTED}.${HINT}`,
  'a:address b:address c:u32 m:address h?:b64',
  'asynchronous',
)
code(
  `cp.!async.!bulk.dst=shared::cluster.src=shared::cta.${COUNTED}`,
  'a:address b:address c:u32 m:address',
  'asynchronous',
)
code(
  `cp.!async.!bulk.dst=global.src=shared::cta.bulk_group.${HINT}`,
  'a:address b:address c:u32 h?:b64',
  'asynchronous',
)
code(`cp.!async.!bulk.!prefetch.L2.src=global.${HINT}`, 'b:address c:u32 h?:b64', 'asynchronous')
code('cp.!async.!bulk.!commit_group', '', 'asynchronous')
code('cp.!async.!bulk.!wait_group.?read', 'c:u32', 'asynchronous')

const TO_GLOBAL: readonly (readonly [operation: string, types: string])[] = [
  ['add', 'u32|s32|u64|f32|f64'],
  ['add.noftz', 'f16|bf16'],
  ['min|max', 'u32|s32|u64|s64|f16|bf16'],
  ['inc|dec', 'u32'],
  ['and|or|xor', 'b32|b64'],
]
for (const [operation, types] of TO_GLOBAL) {
  code(
    `cp.!reduce.!async.!bulk.dst=global.src=shared::cta.bulk_group.${HINT}.op=${operation}.T=${types}`,
    'a:address b:address c:u32 h?:b64',
    'asynchronous',
  )
}
const TO_SHARED: readonly (readonly [operation: string, types: string])[] = [
  ['add', 'u32|s32|u64'],
  ['min|max', 'u32|s32'],
  ['inc|dec', 'u32'],
  ['and|or|xor', 'b32'],
]
for (const [operation, types] of TO_SHARED) {
  code(
    `cp.!reduce.!async.!bulk.dst=shared::cluster.src=shared::cta.${COUNTED}.op=${operation}.T=${types}`,
    'a:address b:address c:u32 m:address',
    'asynchronous',
  )
  const ofOne = operation === 'add' ? 'u32|s32|u64|s64' : types
  code(
    `red.!async.relaxed.cluster.dst=shared::cluster.${COUNTED}.op=${operation}.T=${ofOne}`,
    'a:address b:T m:address',
    'asynchronous',
  )
}
code(
  `st.!async.?weak.dst=shared::cluster.${COUNTED}.?vec=v2.T=b32|u32|s32|b64|u64|s64|f32|f64`,
  'a:address b:T m:address',
  'asynchronous',
)
code(
  `st.!async.?weak.dst=shared::cluster.${COUNTED}.vec=v4.T=b32|u32|s32|f32`,
  'a:address b:T m:address',
  'asynchronous',
)

// Tiles by tensor maps. The coordinates stand in the brackets of the map.
for (const [dimensions, mode, offsets] of [
  ['1d|2d|3d|4d|5d', '?mode=tile', ''],
  ['3d|4d|5d', 'mode=im2col', 'i:b16 '],
] as const) {
  code(
    `cp.!async.!bulk.!tensor.dim=${dimensions}.dst=shared::cluster.src=global.${mode}.${COUNTED}.?multicast=multicast::cluster.${HINT}`,
    `a:address t:address m:address ${offsets}n?:b16 h?:b64`,
    'asynchronous',
  )
  code(
    `cp.!async.!bulk.!tensor.dim=${dimensions}.dst=shared::cta.src=global.${mode}.${COUNTED}.${HINT}`,
    `a:address t:address m:address ${offsets}h?:b64`,
    'asynchronous',
  )
  code(
    `cp.!async.!bulk.!prefetch.!tensor.dim=${dimensions}.L2.src=global.${mode}.${HINT}`,
    `t:address ${offsets}h?:b64`,
    'asynchronous',
  )
}
for (const [dimensions, mode] of [
  ['1d|2d|3d|4d|5d', '?mode=tile'],
  ['3d|4d|5d', 'mode=im2col_no_offs'],
] as const) {
  code(
    `cp.!async.!bulk.!tensor.dim=${dimensions}.dst=global.src=shared::cta.${mode}.bulk_group.${HINT}`,
    't:address b:address h?:b64',
    'asynchronous',
  )
  code(
    `cp.!reduce.!async.!bulk.!tensor.dim=${dimensions}.dst=global.src=shared::cta.op=add|min|max|inc|dec|and|or|xor.${mode}.bulk_group.${HINT}`,
    't:address b:address h?:b64',
    'asynchronous',
  )
}

// Fields of a tensor map in memory.
const FIELD_SPACE = '?dst=global|shared::cta'
code(`tensormap.!replace.tile.field=global_address.${FIELD_SPACE}.b1024.b64`, 'a:address b:b64', 'asynchronous')
code(
  `tensormap.!replace.tile.field=rank|elemtype|interleave_layout|swizzle_mode|fill_mode.${FIELD_SPACE}.b1024.b32`,
  'a:address b:b32',
  'asynchronous',
)
code(
  `tensormap.!replace.tile.field=box_dim|global_dim|element_stride.${FIELD_SPACE}.b1024.b32`,
  'a:address i:u32 b:b32',
  'asynchronous',
)
code(`tensormap.!replace.tile.field=global_stride.${FIELD_SPACE}.b1024.b64`, 'a:address i:u32 b:b64', 'asynchronous')
code(
  'tensormap.!cp_fenceproxy.dst=global.src=shared::cta.tensormap::generic.sem=release.scope=cta|cluster|gpu|sys.sync.aligned',
  'a:address b:address c:u32',
  'asynchronous',
)
nothing('prefetch.?space=const|param.tensormap', 'a:address')
nothing('fence.!proxy.tensormap::generic.acquire.scope=cta|cluster|gpu|sys', 'a:address b:u32')
nothing('fence.!proxy.tensormap::generic.release.scope=cta|cluster|gpu|sys', '')
code('fence.!proxy.async.?space=global|shared::cta|shared::cluster', '', 'proxy')
nothing('fence.!proxy.alias.?space=global|shared::cta|shared::cluster', '')
