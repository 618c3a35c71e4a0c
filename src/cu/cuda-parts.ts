/**
 * What code for the GPU uses of headers that are for the host in the main: the compiler gets the parts that are named, since all of them take
 * it seconds, and many it refuses.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'

/** Names of std that CUDA's library has for the GPU, by its headers. */
const STANDARD_PARTS: Readonly<Record<string, string>> = {
  array: 'array',
  bit: 'bit_cast popcount countl_zero countl_one countr_zero countr_one bit_ceil bit_floor bit_width has_single_bit rotl rotr endian',
  complex: 'complex conj norm polar arg real imag',
  cstddef: 'byte',
  functional:
    'plus minus multiplies divides modulus negate less greater less_equal greater_equal equal_to not_equal_to logical_and logical_or logical_not bit_and bit_or bit_xor bit_not invoke reference_wrapper ref',
  iterator: 'distance advance next prev begin end size data iterator_traits reverse_iterator',
  numeric: 'accumulate iota reduce inner_product gcd lcm midpoint',
  optional: 'optional nullopt',
  span: 'span',
  tuple: 'tuple make_tuple tie get tuple_size tuple_size_v tuple_element tuple_element_t apply forward_as_tuple ignore',
  type_traits: 'is_invocable is_invocable_v invoke_result invoke_result_t',
  utility:
    'integer_sequence index_sequence make_integer_sequence make_index_sequence index_sequence_for exchange as_const',
  algorithm:
    'lower_bound upper_bound fill fill_n copy copy_n all_of any_of none_of find find_if count for_each reverse equal',
}
const PART_OF = new Map(
  Object.entries(STANDARD_PARTS).flatMap(([header, names]) =>
    names.split(' ').map((name): [string, string] => [name, header]),
  ),
)

/** Is a name of std one that the GPU has by CUDA's library? */
export const isStandardPart = (name: string): boolean => PART_OF.has(name)

/** Headers of Thrust that NVRTC takes, with the names that they have. */
const THRUST_PARTS: Readonly<Record<string, string>> = {
  'thrust/complex.h': 'complex',
  'thrust/pair.h': 'pair make_pair',
  'thrust/tuple.h': 'tuple make_tuple tie get tuple_element tuple_size',
  'thrust/functional.h':
    'plus minus multiplies divides modulus negate square maximum minimum identity less greater less_equal greater_equal equal_to not_equal_to logical_and logical_or logical_not bit_and bit_or bit_xor project1st project2nd',
  'thrust/random.h':
    'default_random_engine minstd_rand minstd_rand0 ranlux24 taus88 uniform_real_distribution uniform_int_distribution normal_distribution',
}

export interface CudaParts {
  /** Headers that come before the source. */
  readonly before: string
  /** What stands for headers of CUDA's, by their names. */
  readonly replaced: ReadonlyMap<string, string>
  /** Headers that nothing stands for, since the compiler takes them. */
  readonly kept: ReadonlySet<string>
  /** Headers of C++ that they need. */
  readonly needed: readonly string[]
}

/**
 * @param included The names of headers that the files include.
 * @param texts What of the files is for the GPU.
 * @param folders The folders with CUDA's headers.
 */
export function partsOf(included: readonly string[], texts: readonly string[], folders: readonly string[]): CudaParts {
  const isHere = (name: string): boolean => folders.some((folder) => existsSync(join(folder, name)))
  const all = texts.join('\n')
  const namesOf = (space: string): ReadonlySet<string> => {
    const qualified = [...all.matchAll(new RegExp(`\\b${space}\\s*::\\s*(\\w+)`, 'g'))].map(([, name = '']) => name)
    const isOpen = new RegExp(`\\busing\\s+namespace\\s+(?:::)?${space}\\b`).test(all)
    return new Set([...qualified, ...(isOpen ? (all.match(/\b[A-Za-z_]\w*\b/g) ?? []) : [])])
  }
  const replaced = new Map<string, string>()
  const kept = new Set<string>()
  const needed: string[] = []
  const cub = included.filter((name) => /^cub\/(?:cub\.cuh|device\/|util_allocator)/.test(name))
  if (cub.length > 0) {
    const text = [...cubParts(namesOf('cub'))].filter(isHere).map((name) => `#include <${name}>\n`)
    for (const name of cub) replaced.set(name, `#pragma once\nnamespace cub {}\n${text.join('')}`)
  }
  const thrust = included.filter((name) => name.startsWith('thrust/'))
  if (thrust.length > 0) {
    const names = namesOf('thrust')
    const wanted = Object.entries(THRUST_PARTS).filter(
      ([header, own]) => isHere(header) && own.split(' ').some((name) => names.has(name)),
    )
    if (wanted.length > 0) {
      for (const header of Object.keys(THRUST_PARTS)) kept.add(header)
      const text = wanted.map(([header]) => `#include <${header}>\n`).join('')
      for (const name of thrust) if (!kept.has(name)) replaced.set(name, `#pragma once\nnamespace thrust {}\n${text}`)
      // It writes numbers to the host's streams.
      replaced.set('thrust/detail/complex/stream.h', '#pragma once\n')
      needed.push('iosfwd', 'cstddef', 'cmath', 'sstream', 'limits')
    }
  }
  const standard = [...all.matchAll(/\bstd\s*::\s*(\w+)/g)].flatMap(([, name = '']) => {
    const header = PART_OF.get(name)
    return header !== undefined && isHere(`cuda/std/${header}`) ? [[name, header] as const] : []
  })
  const before = [
    ...(/\btimespec\b/.test(all) && isHere('cuda/std/ctime') ? ['#include <cuda/std/ctime>\n'] : []),
    ...new Set(standard.map(([, header]) => `#include <cuda/std/${header}>\n`)),
    ...new Set(standard.map(([name]) => `namespace std { using ::cuda::std::${name}; }\n`)),
  ]
  return { before: before.join(''), replaced, kept, needed }
}

/** Headers of CUB for classes of blocks, warps and threads, which are named for them: BlockReduce is in block/block_reduce.cuh. */
function* cubParts(names: ReadonlySet<string>): Iterable<string> {
  if (names.size === 0) return
  yield 'cub/util_type.cuh'
  yield 'cub/util_ptx.cuh'
  yield 'cub/thread/thread_operators.cuh'
  const found = new Set<string>()
  for (const name of names) {
    const [, kind, rest] = /^(Block|Warp|Thread|Grid)([A-Z]\w*)$/.exec(name) ?? []
    const snake = rest?.replace(/(?<=[a-z])[A-Z]/g, (letter) => `_${letter}`).toLowerCase()
    if (kind !== undefined) found.add(`cub/${kind.toLowerCase()}/${kind.toLowerCase()}_${snake}.cuh`)
    if (/^(?:LoadDirect|BLOCK_LOAD)/.test(name)) found.add('cub/block/block_load.cuh')
    if (/^(?:StoreDirect|BLOCK_STORE)/.test(name)) found.add('cub/block/block_store.cuh')
    if (/^LOAD_/.test(name)) found.add('cub/thread/thread_load.cuh')
    if (/^STORE_/.test(name)) found.add('cub/thread/thread_store.cuh')
    if (/^BLOCK_REDUCE/.test(name)) found.add('cub/block/block_reduce.cuh')
    if (/^BLOCK_SCAN/.test(name)) found.add('cub/block/block_scan.cuh')
    if (name === 'CacheModifiedInputIterator') found.add('cub/iterator/cache_modified_input_iterator.cuh')
  }
  yield* found
}
