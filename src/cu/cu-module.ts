/**
 * The texts that stand for a file of CUDA C++ in a project of JavaScript or TypeScript. Nothing here is Node's alone: the playground makes
 * modules of kernels in a page.
 */
import type { ParameterType, StructPointer } from '../core/kernels/kernel-signature.js'
import { type FieldType, type Struct, struct } from '../foundation/base/element-layout.js'
import type { CompiledCu, CuStruct } from './compiled-cu.js'

type Made = Pick<CompiledCu, 'file' | 'ptx' | 'cubins' | 'kernels' | 'structs'>

/** Words that JavaScript has for itself, and C++ does not; and those that these texts import. */
const RESERVED =
  /^(?:arguments|await|debugger|eval|export|extends|finally|function|import|in|instanceof|interface|let|null|package|super|typeof|var|with|yield|implements|ptx|cubins|struct|defineKernel|Struct|DefinedKernel)$/

export const isReserved = (name: string): boolean => RESERVED.test(name)

const quoted = (text: string): string => `'${text}'`

const nameOfFile = (path: string): string => path.replace(/^.*[/\\]/, '')

const nameOf = (structs: readonly CuStruct[], wanted: Struct): string =>
  structs.find(({ struct: own }) => own === wanted)?.name ?? 'struct'

function pointed(type: StructPointer): { readonly access: string; readonly struct: Struct } {
  const [[access, struct] = ['in', undefined]] = Object.entries(type) as [string, Struct][]
  if (struct === undefined) throw new TypeError('A pointer without a struct')
  return { access, struct }
}

const isStruct = (type: Struct | StructPointer): type is Struct => 'fields' in type

/** A type of a parameter as people read it, such as 'inout Particle*'. */
export function typeText(type: ParameterType, structs: readonly CuStruct[]): string {
  if (typeof type === 'string') return type
  if (isStruct(type)) return nameOf(structs, type)
  const { access, struct } = pointed(type)
  return `${access} ${nameOf(structs, struct)}*`
}

const base64Of = (code: Uint8Array): string => Buffer.from(code).toString('base64')

/** JavaScript that exports the kernels and structs. */
export function moduleText({ file, ptx, cubins, kernels, structs }: Made): string {
  const fieldText = (type: FieldType): string => {
    if (typeof type === 'string') return quoted(type)
    return isElements(type) ? `[${fieldText(type[0])}, ${type[1]}]` : nameOf(structs, type)
  }
  const parameterText = (type: ParameterType): string => {
    if (typeof type === 'string') return quoted(type)
    if (isStruct(type)) return nameOf(structs, type)
    const { access, struct } = pointed(type)
    return `{ ${access}: ${nameOf(structs, struct)} }`
  }
  const types = structs.map(({ name, struct: { fields, alignment } }) => {
    const members = Object.entries(fields).map(([member, type]) => `${member}: ${fieldText(type)}`)
    const options = struct(fields).alignment === alignment ? '' : `, { alignment: ${alignment} }`
    return `export const ${name} = struct({ ${members.join(', ')} }${options})`
  })
  const machineCode = Object.entries(cubins).map(([architecture, code]) => `  ${architecture}: '${base64Of(code)}',\n`)
  const exports = kernels.map(({ name, mangledName, signature, parameterNames }) => {
    const names = parameterNames.length === 0 ? '' : `, parameterNames: [${parameterNames.map(quoted).join(', ')}]`
    const inCubins = mangledName === name ? 'cubins, ' : `cubins, mangledName: '${mangledName}', `
    return `export const ${name} = defineKernel({ name: '${name}', ptx, ${machineCode.length === 0 ? '' : inCubins}signature: [${signature.map(parameterText).join(', ')}]${names} })`
  })
  const escaped = ptx.trim().replace(/[\\`]|\$\{/g, '\\$&')
  return [
    `// Made of ${nameOfFile(file)} by cuda-streams. Changes here are lost.`,
    `import { defineKernel${structs.length === 0 ? '' : ', struct'} } from 'cuda-streams'`,
    '',
    `const ptx = \`\n${escaped}\n\``,
    ...(machineCode.length === 0 ? [] : [`const cubins = {\n${machineCode.join('')}}`]),
    '',
    ...types,
    ...exports,
    '',
  ].join('\n')
}

const isElements = (type: FieldType): type is readonly [FieldType, number] => Array.isArray(type)

const ADDRESS_COMMENT =
  '  /** A pointer as an address, such as `buffer.pointer`: its memory does not count as used by the kernel. */\n'

/** TypeScript's declarations of them: a launch shows the parameters by the names that they have in the source. */
export function declarationText({ file, kernels, structs }: Made): string {
  const valueText = (type: FieldType): string => {
    if (isElements(type)) return `readonly ${arrayElement(valueText(type[0]))}[]`
    if (typeof type !== 'string') return nameOf(structs, type)
    const [scalar = '', lanes] = type.split('x')
    const value = scalar === 'bool' ? 'boolean' : /64/.test(scalar) && !scalar.startsWith('f') ? 'bigint' : 'number'
    if (lanes === undefined) return value
    const parts = ['x', 'y', 'z', 'w'].slice(0, Number(lanes)).map((name) => `${name}: ${value}`)
    return `readonly [${parts.join(', ')}]`
  }
  const parameterText = (type: ParameterType): string => {
    if (typeof type === 'string') return quoted(type)
    if (isStruct(type)) return `Struct<${nameOf(structs, type)}>`
    const { access, struct } = pointed(type)
    return `{ readonly ${access}: Struct<${nameOf(structs, struct)}> }`
  }
  const types = structs.map((own) => {
    const members = Object.entries(own.struct.fields).map(
      ([member, type]) =>
        `${own.addresses.includes(member) ? ADDRESS_COMMENT : ''}  readonly ${member}: ${valueText(type)}\n`,
    )
    return `${commentText(own)}export interface ${own.name} {\n${members.join('')}}\nexport declare const ${own.name}: Struct<${own.name}>\n`
  })
  const exports = kernels.map((kernel) => {
    const parameters = kernel.signature.map(
      (type, index) => `${labelOf(kernel.parameterNames[index] ?? '')}: ${parameterText(type)}`,
    )
    return `${commentText(kernel)}${kernelText(kernel.name, 'DefinedKernel', parameters)}\n`
  })
  return [
    `// Made of ${nameOfFile(file)} by cuda-streams. Changes here are lost.`,
    `import type { DefinedKernel${structs.length === 0 ? '' : ', Struct'} } from 'cuda-streams'`,
    '',
    [...types, ...exports].join('\n'),
  ].join('\n')
}

const WIDEST = 120

/** The declaration of a kernel, on as many lines as it needs. */
export function kernelText(
  name: string,
  type: 'DefinedKernel' | 'TritonKernel',
  parameters: readonly string[],
  second = '',
): string {
  const head = `export declare const ${name}: ${type}<`
  const tuple = `readonly [${parameters.join(', ')}]`
  const inLine = second === '' ? '' : `, ${second}`
  const below = second === '' ? '' : `,\n  ${second}`
  if (head.length + tuple.length + inLine.length < WIDEST) return `${head}${tuple}${inLine}>`
  if (tuple.length + 2 <= WIDEST) return `${head}\n  ${tuple}${below}\n>`
  return `${head}\n  readonly [\n${parameters.map((each) => `    ${each},\n`).join('')}  ]${below}\n>`
}

/** Labels of a tuple cannot be every word: `in` is a name in C++ alone. */
const labelOf = (name: string): string => (isReserved(name) ? `${name}_` : name)

/** A text of a type, of which an array can be made. */
const arrayElement = (text: string): string => (text.startsWith('readonly ') ? `(${text})` : text)

export function commentText({
  comment: text,
  file,
  line,
}: {
  readonly comment: string
  readonly file: string
  readonly line: number
}): string {
  const place = `${nameOfFile(file)}, line ${line}`
  const lines = [...(text === '' ? [] : text.split('\n')), place].map((each) => each.replaceAll('*/', '*\\/').trimEnd())
  return lines.length === 1
    ? `/** ${place} */\n`
    : `/**\n${lines.map((each) => ` * ${each}`.trimEnd()).join('\n')}\n */\n`
}
