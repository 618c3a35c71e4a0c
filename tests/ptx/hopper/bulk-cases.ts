/** Bulk copies and reductions, and the mbarriers and groups by which programs wait for them. */
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
  waitAWhile,
  waitFor,
  zeros,
} from './hopper-case.js'

type Rest = Partial<Pick<HopperCase, 'grid' | 'block' | 'cluster' | 'buffers' | 'args' | 'shared'>>

const cases: HopperCase[] = []

function add(name: string, text: Parameters<typeof kernelText>[0], rest: Rest = {}): void {
  beginText()
  const { buffers = [pattern(4096), zeros(4096)], args = [{ buffer: 0 }, { buffer: 1 }], ...others } = rest
  cases.push({
    ...{ name, grid: [1, 1, 1], block: [32, 1, 1] },
    ...others,
    buffers,
    args,
    ptx: kernelText(text),
  })
}

const expect = (bytes: number | string, bar = '%bars'): string =>
  `@%first mbarrier.arrive.expect_tx.shared::cta.b64 %d0, [${bar}], ${bytes};`
const LOAD = 'cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes'
const LOAD_CTA = 'cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes'

// Copies to shared memory, of all forms.
for (const [name, copy, prefix] of [
  ['cluster', `${LOAD} [%smem+256], [%in+64], 1024, [%bars]`, ''],
  ['cta', `${LOAD_CTA} [%smem+256], [%in+64], 1024, [%bars]`, ''],
  [
    'hint',
    `${LOAD}.L2::cache_hint [%smem+256], [%in+64], 1024, [%bars], %d1`,
    'createpolicy.fractional.L2::evict_first.b64 %d1, 1.0;',
  ],
  ['16', `${LOAD} [%smem+16], [%in+16], 16, [%bars]`, ''],
  ['register', `${LOAD} [%smem+256], [%in+64], %r1, [%bars]`, 'mov.u32 %r1, 1024;'],
] as const) {
  const bytes = name === '16' ? 16 : 1024
  add(`load ${name}`, {
    ...{ tile: 2048, bars: 1 },
    body: [clear(2048), initBars([1]), expect(bytes), prefix, `@%first ${copy};`, waitFor(), dump(2048)].join('\n'),
  })
}
add('load twice', {
  ...{ tile: 2048, bars: 1 },
  body: [
    ...[clear(2048), initBars([1]), expect(512), `@%first ${LOAD} [%smem], [%in], 512, [%bars];`, waitFor()],
    ...[expect(256), `@%first ${LOAD} [%smem+1024], [%in+512], 128, [%bars];`],
    ...[`@%first ${LOAD} [%smem+1152], [%in+1024], 128, [%bars];`, waitFor('%bars', 1), dump(2048)],
  ].join('\n'),
})
add('prefetch', {
  ...{ tile: 256, bars: 1 },
  body: [
    ...[clear(256), '@%first cp.async.bulk.prefetch.L2.global [%in], 256;'],
    ...['createpolicy.fractional.L2::evict_first.b64 %d1, 1.0;'],
    ...['@%first cp.async.bulk.prefetch.L2.global.L2::cache_hint [%in], 256, %d1;', dump(256)],
  ].join('\n'),
})

// Copies to global memory.
for (const [name, copy, wait] of [
  ['plain', 'cp.async.bulk.global.shared::cta.bulk_group [%out+128], [%smem+64], 512', 'wait_group 0'],
  [
    'hint',
    'cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%out+128], [%smem+64], 512, %d1',
    'wait_group.read 0',
  ],
] as const) {
  add(`store ${name}`, {
    ...{ tile: 1024 },
    body: [
      ...[fill(1024), 'createpolicy.fractional.L2::evict_first.b64 %d1, 1.0;', `@%first ${copy};`],
      ...['@%first cp.async.bulk.commit_group;', `@%first cp.async.bulk.${wait};`],
    ].join('\n'),
  })
}
add('groups', {
  ...{ tile: 1024 },
  body: [
    fill(1024),
    '@!%first bra END;',
    ...[0, 1, 2].map(
      (at) => `cp.async.bulk.global.shared::cta.bulk_group [%out+${at * 256}], [%smem+${at * 128}], 128;
cp.async.bulk.commit_group;`,
    ),
    ...['cp.async.bulk.wait_group.read 2;', 'cp.async.bulk.wait_group 1;', 'cp.async.bulk.wait_group 0;'],
    'ld.global.b32 %r1, [%out];\nst.global.b32 [%out+1024], %r1;\nEND:',
  ].join('\n'),
})

// Between blocks of a cluster.
add(
  'to another block',
  {
    ...{ tile: 1024, bars: 1 },
    body: [
      ...[
        clear(1024),
        initBars([1]),
        fill(512),
        '@%first mbarrier.arrive.expect_tx.shared::cta.b64 %d0, [%bars], 256;',
      ],
      CLUSTER_SYNC,
      ...[
        'xor.b32 %r1, %rank, 1;',
        'mapa.shared::cluster.u32 %r2, %smem, %r1;',
        'mapa.shared::cluster.u32 %r3, %bars, %r1;',
      ],
      'mad.lo.u32 %r4, %rank, 128, %smem;',
      '@%first cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r2+512], [%r4], 256, [%r3];',
      ...[waitFor(), dump(1024), CLUSTER_SYNC],
    ].join('\n'),
  },
  { grid: [2, 1, 1], cluster: [2, 1, 1] },
)
for (const [name, hint] of [
  ['multicast', ''],
  ['multicast with a hint', '.L2::cache_hint'],
] as const) {
  add(
    name,
    {
      ...{ tile: 512, bars: 1 },
      body: [
        ...[clear(512), initBars([1]), 'shr.u32 %r1, 11, %rank;', 'and.b32 %r1, %r1, 1;', 'setp.ne.u32 %p1, %r1, 0;'],
        ...[
          'and.pred %p2, %p1, %first;',
          '@%p2 mbarrier.arrive.expect_tx.shared::cta.b64 %d0, [%bars], 256;',
          CLUSTER_SYNC,
        ],
        ...['setp.eq.u32 %p3, %rank, 2;', 'and.pred %p3, %p3, %first;', 'mov.u16 %h0, 11;'],
        'createpolicy.fractional.L2::evict_first.b64 %d1, 1.0;',
        `@%p3 ${LOAD}.multicast::cluster${hint} [%smem+128], [%in+16], 256, [%bars], %h0${hint === '' ? '' : ', %d1'};`,
        ...['@!%p1 bra REST;', waitFor(), 'REST:', CLUSTER_SYNC, dump(512), CLUSTER_SYNC],
      ]
        .join('\n')
        .replace(/^/, '.reg .b16 %h0;\n'),
    },
    { grid: [4, 1, 1], cluster: [4, 1, 1] },
  )
}

// Reductions.
const REDUCTIONS: readonly (readonly [operations: readonly string[], types: readonly string[]])[] = [
  [['add'], ['u32', 's32', 'u64', 'f16', 'bf16', 'f32', 'f64']],
  [
    ['min', 'max'],
    ['u32', 's32', 'u64', 's64', 'f16', 'bf16'],
  ],
  [['inc', 'dec'], ['u32']],
  [
    ['and', 'or', 'xor'],
    ['b32', 'b64'],
  ],
]
/** Numbers of a type that are no NaN, with some that are equal, and small ones for counters. */
function numbers(type: string, seed: number): Uint8Array {
  const bytes = pattern(512, seed)
  const view = new DataView(bytes.buffer)
  if (type === 'f32') for (let at = 0; at < 512; at += 4) view.setFloat32(at, (bytes[at] ?? 0) / 7 - 16, true)
  else if (type === 'f64') for (let at = 0; at < 512; at += 8) view.setFloat64(at, (bytes[at] ?? 0) / 7 - 16, true)
  else if (type === 'f16') for (let at = 1; at < 512; at += 2) bytes[at] = ((bytes[at] ?? 0) & 0x8f) | 0x30
  else if (type === 'bf16') for (let at = 1; at < 512; at += 2) bytes[at] = ((bytes[at] ?? 0) & 0x81) | 0x3e
  else if (type === 'u32') for (let at = 0; at < 256; at += 4) view.setUint32(at, (bytes[at] ?? 0) & 3, true)
  return bytes
}
for (const [operations, types] of REDUCTIONS) {
  for (const operation of operations) {
    for (const type of types) {
      const noftz = operation === 'add' && /^b?f16$/.test(type) ? '.noftz' : ''
      for (const hint of operation === 'add' && type === 'u32' ? ['', '.L2::cache_hint'] : ['']) {
        add(
          `reduce to global ${operation} ${type}${hint}`,
          {
            ...{ tile: 512 },
            body: [
              ...[fill(512), 'createpolicy.fractional.L2::evict_first.b64 %d1, 1.0;'],
              `@%first cp.reduce.async.bulk.global.shared::cta.bulk_group${hint}.${operation}${noftz}.${type} [%out], [%smem], 512${hint === '' ? '' : ', %d1'};`,
              ...['@%first cp.async.bulk.commit_group;', '@%first cp.async.bulk.wait_group 0;'],
            ].join('\n'),
          },
          { buffers: [numbers(type, 1), numbers(type, 2)] },
        )
      }
      if (!/^[usb]/.test(type) || type.startsWith('bf')) continue
      if (type.endsWith('64') && (operation !== 'add' || type !== 'u64')) continue
      add(
        `reduce to another block ${operation} ${type}`,
        {
          ...{ tile: 1024, bars: 1 },
          body: [
            ...[initBars([1]), fill(1024), expect(512), CLUSTER_SYNC, 'xor.b32 %r1, %rank, 1;'],
            ...['mapa.shared::cluster.u32 %r2, %smem, %r1;', 'mapa.shared::cluster.u32 %r3, %bars, %r1;'],
            `@%first cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.${operation}.${type} [%r2+512], [%smem], 512, [%r3];`,
            ...[waitFor(), dump(1024), CLUSTER_SYNC],
          ].join('\n'),
        },
        {
          buffers: [new Uint8Array([...numbers(type, 1), ...numbers(type, 2)]), zeros(4096)],
          grid: [2, 1, 1],
          cluster: [2, 1, 1],
        },
      )
    }
  }
}

// mbarriers: the counts that are left, and the words in memory.
const STATES: readonly (readonly [string, number, string])[] = [
  ['arrive', 3, 'mbarrier.arrive.shared::cta.b64 %d1, [%bars];'],
  ['arrive 2', 3, 'mbarrier.arrive.shared::cta.b64 %d1, [%bars], 2;'],
  ['arrive at the end', 1, 'mbarrier.arrive.shared::cta.b64 %d1, [%bars];'],
  ['arrive_drop', 3, 'mbarrier.arrive_drop.shared::cta.b64 %d1, [%bars];'],
  [
    'expect_tx',
    3,
    'mbarrier.arrive.shared::cta.b64 %d1, [%bars];\nmbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%bars], 100;',
  ],
  [
    'expect and complete',
    1,
    `mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%bars], 100;
mbarrier.arrive.shared::cta.b64 %d1, [%bars];
mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%bars], 60;
mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%bars], 40;`,
  ],
  [
    'complete before expect',
    1,
    `mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%bars], 60;
mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 %d1, [%bars], 60;`,
  ],
  ['arrive_drop expect_tx', 2, 'mbarrier.arrive_drop.expect_tx.shared::cta.b64 %d1, [%bars], 16;'],
  ['without a state', 2, 'mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%bars];'],
  ['noComplete', 3, 'mbarrier.arrive.noComplete.shared::cta.b64 %d1, [%bars], 1;'],
  ['largest count', 1048575, 'mbarrier.arrive.shared::cta.b64 %d1, [%bars], 5;'],
  ['too large count', 1048576, ''],
  ['large bytes', 1, 'mbarrier.arrive.expect_tx.shared::cta.b64 %d1, [%bars], 1048575;'],
  ['too many bytes', 1, 'mbarrier.arrive.expect_tx.shared::cta.b64 %d1, [%bars], 1048576;'],
  ['inval', 1, 'mbarrier.inval.shared::cta.b64 [%bars];'],
]
for (const [name, count, body] of STATES) {
  add(`mbarrier ${name}`, {
    ...{ bars: 1 },
    body: [
      ...['@!%first bra END;', `mov.u32 %r9, ${count};`, 'mbarrier.init.shared::cta.b64 [%bars], %r9;', body],
      ...(body.includes('%d1,') ? ['mbarrier.pending_count.b64 %r3, %d1;'] : ['mov.u32 %r3, 0;']),
      ...[0, 1].map(
        (parity) => `mbarrier.test_wait.parity.shared::cta.b64 %p1, [%bars], ${parity};
selp.u32 %r${10 + parity}, 1, 0, %p1;`,
      ),
      ...[store(['%r3', '%r10', '%r11']), 'END:'],
    ].join('\n'),
  })
}
add(
  'arrive at another block',
  {
    ...{ bars: 1 },
    body: [
      initBars([3]),
      ...[CLUSTER_SYNC, 'mapa.shared::cluster.u32 %r1, %bars, 0;', '@!%first bra REST;'],
      'mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r1];',
      'setp.eq.u32 %p1, %rank, 1;',
      '@%p1 mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r1], 64;',
      '@%p1 mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r1], 64;',
      ...['REST:', 'setp.eq.u32 %p2, %rank, 0;', '@!%p2 bra REST2;', waitFor('%bars', 0)],
      ...['mov.u32 %r5, 7;', store(['%r5']), 'REST2:', CLUSTER_SYNC],
    ].join('\n'),
  },
  { grid: [2, 1, 1], cluster: [2, 1, 1] },
)
add('mbarrier phases', {
  ...{ bars: 1 },
  body: [
    '@!%first bra END;\nmbarrier.init.shared::cta.b64 [%bars], 1;\nmov.u32 %r1, 0;',
    ...[0, 1, 2, 3].map(
      (at) => `mbarrier.arrive.shared::cta.b64 %d${at}, [%bars];
mbarrier.test_wait.shared::cta.b64 %p1, [%bars], %d${at};
mbarrier.test_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%bars], ${at & 1};
mbarrier.test_wait.parity.acquire.cta.shared::cta.b64 %p3, [%bars], ${(at & 1) ^ 1};
shl.b32 %r1, %r1, 3;
@%p1 or.b32 %r1, %r1, 1;
@%p2 or.b32 %r1, %r1, 2;
@%p3 or.b32 %r1, %r1, 4;`,
    ),
    ...[store(['%r1']), 'END:'],
  ].join('\n'),
})

// Wrong programs.
const wrong = (name: string, copy: string, prefix = '', bytes = 64): void => {
  add(`wrong ${name}`, {
    ...{ tile: 1024, bars: 2 },
    body: [clear(1024), initBars([1, 1]), expect(bytes), prefix, `@%first ${copy};`, waitAWhile(), dump(1024)].join(
      '\n',
    ),
  })
}
wrong('source alignment', `${LOAD} [%smem], [%in+8], 64, [%bars]`)
wrong('destination alignment', `${LOAD} [%smem+8], [%in], 64, [%bars]`)
wrong('size', `${LOAD} [%smem], [%in], %r1, [%bars]`, 'mov.u32 %r1, 24;', 24)
wrong('size 0', `${LOAD} [%smem], [%in], %r1, [%bars]`, 'mov.u32 %r1, 0;', 0)
wrong('mbarrier alignment', `${LOAD} [%smem], [%in], 64, [%bars+4]`)
wrong('source beyond its end', `${LOAD} [%smem], [%d2], 64, [%bars]`, 'add.u64 %d2, %in, 1073741824;')
wrong('null source', `${LOAD} [%smem], [%d2], 64, [%bars]`, 'mov.u64 %d2, 0;')
wrong('destination beyond its end', `${LOAD} [%r2], [%in], 64, [%bars]`, 'add.u32 %r2, %smem, 262144;')
wrong('mbarrier beyond its end', `${LOAD} [%smem], [%in], 64, [%r2]`, 'add.u32 %r2, %smem, 262144;')
wrong('destination across the end', `${LOAD} [%r2], [%in], 2048, [%bars]`, 'add.u32 %r2, %smem, 512;', 2048)
wrong('too few bytes', `${LOAD} [%smem], [%in], 32, [%bars]`)
wrong('too many bytes', `${LOAD} [%smem], [%in], 128, [%bars]`)
for (const [name, copy, prefix] of [
  ['store source alignment', 'cp.async.bulk.global.shared::cta.bulk_group [%out], [%smem+8], 64', ''],
  ['store destination alignment', 'cp.async.bulk.global.shared::cta.bulk_group [%out+8], [%smem], 64', ''],
  ['store size', 'cp.async.bulk.global.shared::cta.bulk_group [%out], [%smem], %r1', 'mov.u32 %r1, 24;'],
  [
    'store beyond its end',
    'cp.async.bulk.global.shared::cta.bulk_group [%d2], [%smem], 64',
    'add.u64 %d2, %out, 1073741824;',
  ],
  [
    'store from beyond the end',
    'cp.async.bulk.global.shared::cta.bulk_group [%out], [%r2], 64',
    'add.u32 %r2, %smem, 262144;',
  ],
  [
    'reduce destination alignment',
    'cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%out+8], [%smem], 64',
    '',
  ],
  ['prefetch beyond its end', 'cp.async.bulk.prefetch.L2.global [%d2], 64', 'add.u64 %d2, %out, 1073741824;'],
  ['prefetch alignment', 'cp.async.bulk.prefetch.L2.global [%out+8], 64', ''],
] as const) {
  add(`wrong ${name}`, {
    ...{ tile: 1024 },
    body: [
      fill(1024),
      prefix,
      `@%first ${copy};`,
      '@%first cp.async.bulk.commit_group;',
      '@%first cp.async.bulk.wait_group 0;',
    ].join('\n'),
  })
}
add('wrong mbarrier alignment of arrive', {
  ...{ bars: 2 },
  body: 'mbarrier.init.shared::cta.b64 [%bars+4], 1;',
})
add('wrong mbarrier beyond the end', {
  ...{ bars: 2 },
  body: 'add.u32 %r1, %bars, 262144;\nmbarrier.init.shared::cta.b64 [%r1], 1;',
})

export const BULK_CASES: readonly HopperCase[] = cases
