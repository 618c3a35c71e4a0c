/** Clusters: what a block knows of its cluster, the memory of other blocks, and stores that an mbarrier counts. */
import {
  beginText,
  CLUSTER_SYNC,
  clear,
  dump,
  fill,
  type HopperCase,
  initBars,
  kernelText,
  pattern,
  store,
  waitFor,
  zeros,
} from './hopper-case.js'

type Rest = Partial<Pick<HopperCase, 'grid' | 'block' | 'cluster' | 'buffers' | 'shared'>>

const cases: HopperCase[] = []

function add(name: string, text: Parameters<typeof kernelText>[0], rest: Rest = {}): void {
  beginText()
  const { buffers = [pattern(4096), zeros(16384)], ...others } = rest
  cases.push({
    ...{ name, grid: [2, 1, 1], block: [32, 1, 1], cluster: [2, 1, 1] },
    ...others,
    buffers,
    args: [{ buffer: 0 }, { buffer: 1 }],
    ptx: kernelText(text),
  })
}

const SPECIAL = [
  ...['%clusterid.x', '%clusterid.y', '%clusterid.z', '%nclusterid.x', '%nclusterid.y', '%nclusterid.z'],
  ...['%cluster_ctaid.x', '%cluster_ctaid.y', '%cluster_ctaid.z', '%cluster_nctaid.x', '%cluster_nctaid.y'],
  ...['%cluster_nctaid.z', '%cluster_ctarank', '%cluster_nctarank', '%ctaid.x', '%ctaid.y', '%ctaid.z'],
]
const special = [
  ...SPECIAL.map((each, index) => `mov.u32 %r${index + 1}, ${each};`),
  ...['mov.pred %p1, %is_explicit_cluster;', 'selp.u32 %r20, 1, 0, %p1;', '@!%first bra END;'],
  ...[
    'mov.u32 %r30, %nctaid.x;',
    'mov.u32 %r31, %nctaid.y;',
    'mad.lo.u32 %r32, %r17, %r31, %r16;',
    'mad.lo.u32 %r32, %r32, %r30, %r15;',
  ],
  ...['mul.wide.u32 %d1, %r32, 128;', 'add.u64 %d1, %out, %d1;'],
  ...[...SPECIAL, 'explicit'].map(
    (each, index) => `st.global.b32 [%d1+${4 * index}], %r${each === 'explicit' ? 20 : index + 1};`,
  ),
  'END:',
].join('\n')
for (const [grid, cluster] of [
  [
    [4, 2, 2],
    [2, 1, 2],
  ],
  [
    [4, 4, 1],
    [2, 4, 1],
  ],
  [
    [8, 1, 1],
    [8, 1, 1],
  ],
  [
    [2, 2, 2],
    [1, 2, 1],
  ],
  [
    [3, 2, 1],
    [1, 1, 1],
  ],
] as const)
  add(`registers ${grid} in ${cluster}`, { body: special }, { grid, cluster })
const withoutCluster = (name: string, body: string, rest: Rest = {}, directives = '', tile = 0): void => {
  add(name, { body, directives, ...(tile > 0 ? { tile } : {}) }, rest)
  const last = cases.pop()
  if (last === undefined) return
  const { cluster: _, ...plain } = last
  cases.push(plain)
}
withoutCluster('registers without clusters', special, { grid: [3, 2, 1] })
withoutCluster(
  'registers of a required cluster',
  special,
  { grid: [4, 2, 1] },
  '.explicitcluster .reqnctapercluster 2, 1, 1',
)
withoutCluster('registers of a required cluster alone', special, { grid: [4, 2, 1] }, '.reqnctapercluster 2, 2, 1')
withoutCluster('required cluster and a grid that is none', special, { grid: [3, 1, 1] }, '.reqnctapercluster 2, 1, 1')
withoutCluster('explicit cluster without one', special, {}, '.explicitcluster')
withoutCluster('most blocks without a cluster', special, {}, '.maxclusterrank 2')
add('most blocks', { body: special, directives: '.maxclusterrank 2' }, { grid: [4, 1, 1], cluster: [4, 1, 1] })
add('most blocks that fit', { body: special, directives: '.maxclusterrank 4' }, { grid: [4, 1, 1], cluster: [4, 1, 1] })
add('another required cluster', { body: special, directives: '.reqnctapercluster 4, 1, 1' }, { grid: [4, 1, 1] })
add('the same required cluster', { body: special, directives: '.reqnctapercluster 2, 1, 1' }, { grid: [4, 1, 1] })
add('explicit cluster', { body: special, directives: '.explicitcluster' }, { grid: [4, 1, 1] })
add('grid that is no multiple', { body: special }, { grid: [3, 1, 1] })
add('cluster of 16', { body: special }, { grid: [16, 1, 1], cluster: [16, 1, 1] })

// Addresses.
const addresses = [
  ...['mov.u32 %r1, 1;', 'mapa.shared::cluster.u32 %r2, %smem, 0;', 'mapa.shared::cluster.u32 %r3, %smem, %r1;'],
  ...['cvta.shared.u64 %d1, %dsmem;', 'mapa.u64 %d2, %d1, 0;', 'mapa.u64 %d3, %d1, %r1;', 'cvt.u64.u32 %d4, %r3;'],
  ...[
    'cvta.shared::cluster.u64 %d5, %d4;',
    'sub.u64 %d6, %d3, %d1;',
    'sub.u64 %d7, %d5, %d1;',
    'sub.u64 %d8, %d2, %d1;',
  ],
  ...['getctarank.shared::cluster.u32 %r4, %r2;', 'getctarank.shared::cluster.u32 %r5, %r3;'],
  ...[
    'getctarank.u64 %r6, %d2;',
    'getctarank.u64 %r7, %d3;',
    'getctarank.u64 %r8, %d1;',
    'getctarank.shared::cluster.u32 %r9, %smem;',
  ],
  'mov.u32 %r10, 0;',
  ...['%d1', '%d2', '%d3'].flatMap((address, index) =>
    ['shared', 'shared::cta', 'shared::cluster', 'global', 'local'].map(
      (space, bit) => `isspacep.${space} %p1, ${address};\n@%p1 or.b32 %r10, %r10, ${1 << (8 * index + bit)};`,
    ),
  ),
  ...['cvta.to.shared.u64 %d9, %d3;', 'cvt.u32.u64 %r11, %d9;'],
  ...['sub.u64 %d10, %d5, %d3;', 'mov.b64 {%r15, %r16}, %d10;', 'sub.u32 %r17, %r11, %r3;'],
  store(['%r4', '%r5', '%r6', '%r7', '%r8', '%r9', '%r10', '%r15', '%r16', '%r17']),
]
  .join('\n')
  .replace('cvta.shared.u64 %d1, %dsmem;', 'cvt.u64.u32 %d0, %smem;\ncvta.shared.u64 %d1, %d0;')
add('addresses', { tile: 256, body: `${addresses}\n${CLUSTER_SYNC}` })
withoutCluster(
  'addresses without clusters',
  addresses.replaceAll('mov.u32 %r1, 1;', 'mov.u32 %r1, 0;'),
  { grid: [1, 1, 1] },
  '',
  256,
)
for (const [name, body] of [
  [
    'mapa beyond the cluster',
    'mapa.shared::cluster.u32 %r2, %smem, 2;\nmov.u32 %r3, 0;\ngetctarank.shared::cluster.u32 %r4, %r2;',
  ],
  [
    'mapa of a generic address beyond the cluster',
    'cvt.u64.u32 %d0, %smem;\ncvta.shared.u64 %d1, %d0;\nmapa.u64 %d2, %d1, 5;\ngetctarank.u64 %r3, %d2;\nmov.u32 %r4, 0;',
  ],
  [
    'mapa of mapa',
    'mapa.shared::cluster.u32 %r2, %smem, 1;\nmapa.shared::cluster.u32 %r4, %r2, 0;\ngetctarank.shared::cluster.u32 %r3, %r4;\nmapa.shared::cluster.u32 %r5, %smem, 0;\nsub.u32 %r4, %r4, %r5;',
  ],
] as const)
  add(name, { tile: 256, body: `${body}\n${store(['%r3', '%r4'])}\n${CLUSTER_SYNC}` })

// Accesses to the memory of another block.
const OTHER =
  'xor.b32 %r1, %rank, 1;\nmapa.shared::cluster.u32 %r2, %smem, %r1;\nshl.b32 %r3, %me, 2;\nadd.u32 %r4, %r2, %r3;'
const GENERIC = 'cvt.u64.u32 %d1, %r4;\ncvta.shared::cluster.u64 %d2, %d1;'
for (const [name, access] of [
  ['ld', 'ld.shared::cluster.u32 %r5, [%r4];'],
  ['ld v4', 'and.b32 %r4, %r4, -16;\nld.shared::cluster.v4.u32 {%r5, %r6, %r7, %r8}, [%r4];\nadd.u32 %r5, %r5, %r8;'],
  ['ld u8', 'ld.shared::cluster.u8 %r5, [%r4+1];'],
  ['ld acquire', 'ld.acquire.cluster.shared::cluster.u32 %r5, [%r4];'],
  ['ld volatile', 'ld.volatile.shared::cluster.u32 %r5, [%r4];'],
  ['ld generic', `${GENERIC}\nld.u32 %r5, [%d2];`],
  ['st', 'st.shared::cluster.u32 [%r4], %me;\nmov.u32 %r5, 1;'],
  [
    'st v2',
    'and.b32 %r4, %r4, -8;\nand.b32 %r9, %me, -2;\nst.shared::cluster.v2.u32 [%r4], {%r9, %rank};\nmov.u32 %r5, 1;',
  ],
  ['st generic', `${GENERIC}\nst.u32 [%d2], %me;\nmov.u32 %r5, 1;`],
  ['st release', 'st.release.cluster.shared::cluster.u32 [%r4], %me;\nmov.u32 %r5, 1;'],
  ['atom', 'atom.shared::cluster.add.u32 %r5, [%r4], 5;'],
  ['atom generic', `${GENERIC}\natom.add.u32 %r5, [%d2], 6;`],
  ['atom cas', 'ld.shared::cluster.u32 %r6, [%r4];\natom.shared::cluster.cas.b32 %r5, [%r4], %r6, 77;'],
  ['atom f32', 'atom.shared::cluster.add.f32 %f1, [%r4], 0f3f800000;\nmov.b32 %r5, %f1;'],
  [
    'atom 64',
    'and.b32 %r6, %me, 7;\nshl.b32 %r6, %r6, 3;\nadd.u32 %r4, %r2, %r6;\natom.shared::cluster.exch.b64 %d5, [%r4], 3;\nmov.u32 %r5, 0;',
  ],
  ['red', 'red.shared::cluster.max.u32 [%r4], 123456789;\nmov.u32 %r5, 1;'],
  ['red cluster', 'red.relaxed.cluster.shared::cluster.add.u32 [%r2], 1;\nmov.u32 %r5, 1;'],
] as const) {
  add(`memory ${name}`, {
    ...{ tile: 256 },
    body: [fill(256), CLUSTER_SYNC, OTHER, access, store(['%r5']), CLUSTER_SYNC, dump(256, { at: 8192 })].join('\n'),
  })
}

// Stores and reductions that an mbarrier counts.
const asynchronous = (name: string, bytes: number, access: string): void => {
  add(name, {
    ...{ tile: 1024, bars: 1 },
    body: [
      ...[
        initBars([1]),
        fill(1024),
        `@%first mbarrier.arrive.expect_tx.shared::cta.b64 %d0, [%bars], ${32 * bytes};`,
        CLUSTER_SYNC,
      ],
      ...[
        'xor.b32 %r1, %rank, 1;',
        'mapa.shared::cluster.u32 %r2, %smem, %r1;',
        'mapa.shared::cluster.u32 %r3, %bars, %r1;',
      ],
      ...[
        `mad.lo.u32 %r4, %me, ${bytes}, %r2;`,
        'add.u32 %r5, %me, 1000;',
        'cvt.u64.u32 %d5, %r5;',
        'cvt.rn.f32.u32 %f1, %r5;',
      ],
      ...['cvt.rn.f64.u32 %g1, %r5;', access, waitFor(), dump(1024), CLUSTER_SYNC],
    ]
      .join('\n')
      .replace(/^/, '.reg .f64 %g1;\n'),
  })
}
const ST = 'st.async.shared::cluster.mbarrier::complete_tx::bytes'
for (const [type, value] of [
  ['b32', '%r5'],
  ['u32', '%r5'],
  ['s32', '%r5'],
  ['b64', '%d5'],
  ['u64', '%d5'],
  ['s64', '%d5'],
  ['f32', '%f1'],
  ['f64', '%g1'],
] as const) {
  const bytes = Number(type.slice(1)) / 8
  asynchronous(`st.async ${type}`, bytes, `${ST}.${type} [%r4], ${value}, [%r3];`)
  asynchronous(`st.async v2 ${type}`, 2 * bytes, `${ST}.v2.${type} [%r4], {${value}, ${value}}, [%r3];`)
  if (bytes === 4)
    asynchronous(
      `st.async v4 ${type}`,
      4 * bytes,
      `${ST}.v4.${type} [%r4], {${value}, ${value}, ${value}, ${value}}, [%r3];`,
    )
}
for (const [operation, type] of [
  ['inc', 'u32'],
  ['dec', 'u32'],
  ['min', 'u32'],
  ['max', 'u32'],
  ['add', 'u32'],
  ['min', 's32'],
  ['max', 's32'],
  ['add', 's32'],
  ['and', 'b32'],
  ['or', 'b32'],
  ['xor', 'b32'],
  ['add', 'u64'],
] as const) {
  const bytes = Number(type.slice(1)) / 8
  asynchronous(
    `red.async ${operation} ${type}`,
    bytes,
    `red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.${operation}.${type} [%r4], ${bytes === 8 ? '%d5' : '%r5'}, [%r3];`,
  )
}

// Barriers of the cluster.
add('barriers', {
  ...{ tile: 256 },
  body: [
    ...[clear(256), CLUSTER_SYNC, OTHER, 'st.shared::cluster.u32 [%r4], %me;', 'barrier.cluster.arrive.relaxed;'],
    ...['fence.acq_rel.cluster;', 'barrier.cluster.wait;', 'barrier.cluster.arrive;', 'barrier.cluster.wait.acquire;'],
    ...['add.u32 %r5, %smem, %r3;', 'ld.shared.u32 %r6, [%r5];', store(['%r6'])],
  ].join('\n'),
})
add(
  'barriers without threads that ended',
  {
    ...{ tile: 256 },
    body: [
      ...['setp.gt.u32 %p1, %me, 40;', '@%p1 exit;', 'barrier.cluster.arrive;', 'barrier.cluster.wait;'],
      ...[
        'setp.gt.u32 %p1, %me, 20;',
        '@%p1 exit;',
        'barrier.cluster.arrive;',
        'barrier.cluster.wait;',
        store(['%me']),
      ],
    ].join('\n'),
  },
  { block: [64, 1, 1] },
)
add('barriers of a block that ended', {
  ...{ tile: 256 },
  body: [
    ...['setp.eq.u32 %p1, %rank, 1;', '@%p1 exit;', 'barrier.cluster.arrive;', 'barrier.cluster.wait;', store(['%me'])],
  ].join('\n'),
})
withoutCluster('barriers without clusters', `barrier.cluster.arrive;\nbarrier.cluster.wait;\n${store(['%me'])}`)

// Wrong programs.
for (const [name, body] of [
  ['ld.shared of another block', 'ld.shared.u32 %r5, [%r4];'],
  ['st.shared to another block', 'st.shared.u32 [%r4], 5;\nmov.u32 %r5, 0;'],
  ['beyond the memory of another block', 'ld.shared::cluster.u32 %r5, [%r4+262140];'],
  ['beyond the cluster', 'mapa.shared::cluster.u32 %r2, %smem, 7;\nld.shared::cluster.u32 %r5, [%r2];'],
  ['alignment', 'ld.shared::cluster.u32 %r5, [%r4+2];'],
  ['behind its tile', 'ld.shared::cluster.u32 %r5, [%r4+4096];'],
] as const)
  add(`wrong ${name}`, {
    tile: 256,
    body: [fill(256), CLUSTER_SYNC, OTHER, body, store(['%r5']), CLUSTER_SYNC].join('\n'),
  })
add('wrong block that ended', {
  ...{ tile: 256 },
  body: [
    ...[fill(256), CLUSTER_SYNC, OTHER, 'setp.eq.u32 %p1, %rank, 1;', '@%p1 exit;'],
    ...[
      'mov.u32 %r9, 0;',
      'AGAIN: nanosleep.u32 1000;',
      'add.u32 %r9, %r9, 1;',
      'setp.lt.u32 %p1, %r9, 200;',
      '@%p1 bra AGAIN;',
    ],
    ...['ld.shared::cluster.u32 %r5, [%r4];', store(['%r5'])],
  ].join('\n'),
})
add('wrong store to a block that ended', {
  ...{ tile: 256 },
  body: [
    ...[fill(256), CLUSTER_SYNC, OTHER, 'setp.eq.u32 %p1, %rank, 1;', '@%p1 exit;'],
    ...[
      'mov.u32 %r9, 0;',
      'AGAIN: nanosleep.u32 1000;',
      'add.u32 %r9, %r9, 1;',
      'setp.lt.u32 %p1, %r9, 200;',
      '@%p1 bra AGAIN;',
    ],
    ...['st.shared::cluster.u32 [%r4], 4;', store(['%r9'])],
  ].join('\n'),
})
add('elect and griddepcontrol', {
  body: [
    ...[
      'elect.sync %r5|%p1, 0xffffffff;',
      'selp.u32 %r6, 1, 0, %p1;',
      'griddepcontrol.launch_dependents;',
      'griddepcontrol.wait;',
    ],
    store(['%r6']),
  ].join('\n'),
})

export const CLUSTER_CASES: readonly HopperCase[] = cases
