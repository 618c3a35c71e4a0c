/** The types of a file's kernels: the structs that it exports, and what JavaScript has no value for. */
import { type FieldType, fieldOffsets, type Struct, struct } from '../foundation/base/element-layout.js'
import { messageOf } from '../foundation/base/errors.js'
import type { CuStruct } from './compiled-cu.js'
import { isReserved } from './cu-module.js'
import type { SourceStruct } from './found-in-sources.js'
import type { ProbedStruct, ProbedValue } from './signature-probe.js'
import { positionOf } from './source-text.js'

/** A type, or why there is none. */
type Found = { readonly type: FieldType } | { readonly wrong: string }

export class CuTypes {
  /** The structs by what the compiler says of them: a template is several. */
  readonly #found = new Map<string, Found>()
  readonly #structs: CuStruct[] = []
  readonly #names: Set<string>

  constructor(
    private readonly sources: readonly SourceStruct[],
    /** The texts of the files, by path. */
    private readonly texts: ReadonlyMap<string, string>,
    /** Names that kernels are exported under. */
    taken: Iterable<string>,
  ) {
    this.#names = new Set(taken)
  }

  /** The structs that were asked for, each behind those that it is made of. */
  get structs(): readonly CuStruct[] {
    return this.#structs
  }

  of(value: ProbedValue): Found {
    switch (value.kind) {
      case 'named':
        return { type: value.name }
      case 'array': {
        const element = this.of(value.element)
        return 'wrong' in element ? element : { type: [element.type, value.length] }
      }
      case 'pointer':
        return { type: 'u64' }
      case 'unknown':
        return { wrong: 'is no struct that the source shows' }
      case 'struct': {
        const key = JSON.stringify(value)
        const found = this.#found.get(key) ?? this.#structOf(value)
        this.#found.set(key, found)
        return found
      }
    }
  }

  #structOf(value: ProbedStruct): Found {
    const source = this.sources[value.number - 1]
    if (source === undefined) return { wrong: 'is no struct that the source shows' }
    if (source.refused !== undefined) return { wrong: source.refused }
    const fields: { [name: string]: FieldType } = {}
    const offsets: number[] = []
    const addresses: string[] = []
    for (const [index, member] of value.members.entries()) {
      const name = source.members[index]
      if (member === undefined || name === undefined || Object.hasOwn(fields, name)) continue
      const found = this.of(member.type)
      if ('wrong' in found) return { wrong: `has a member ${name} that ${found.wrong}` }
      if (isPointer(member.type)) addresses.push(name)
      fields[name] = found.type
      offsets.push(member.offset)
    }
    const made = laidOut(fields, value.alignment)
    if (typeof made === 'string') return { wrong: made }
    if (
      made.byteLength !== value.byteLength ||
      made.alignment !== value.alignment ||
      String(fieldOffsets(made)) !== String(offsets)
    ) {
      return { wrong: 'is laid out in another way than its members say' }
    }
    this.#structs.push({
      name: this.#nameOf(source),
      struct: made,
      addresses,
      file: source.file,
      ...positionOf(this.texts.get(source.file) ?? '', source.start),
      comment: source.comment,
    })
    return { type: made }
  }

  #nameOf({ name, path }: SourceStruct): string {
    const full = [...path, name].join('_')
    const isShared = this.sources.some((other) => other.name === name && String(other.path) !== String(path))
    const names = [
      isShared ? full : name,
      full,
      ...Array.from({ length: this.#names.size + 1 }, (_, index) => `${full}_${index + 2}`),
    ]
    const free = names.find((each) => !this.#names.has(each) && !isReserved(each)) ?? full
    this.#names.add(free)
    return free
  }
}

/** Is it a pointer, or an array of pointers? */
const isPointer = (type: ProbedValue): boolean =>
  type.kind === 'pointer' || (type.kind === 'array' && isPointer(type.element))

function laidOut(fields: { readonly [name: string]: FieldType }, alignment: number): Struct | string {
  try {
    const natural = struct(fields)
    return natural.alignment < alignment ? struct(fields, { alignment }) : natural
  } catch (error) {
    return `cannot be described: ${messageOf(error)}`
  }
}
