/** The texts that stand for a file of Triton's kernels in a project of JavaScript or TypeScript. */
import { basename } from 'node:path'
import type { TritonMeta, TritonVariant } from '../../core/kernels/triton-kernel.js'
import { commentText, kernelText } from '../cu-module.js'
import type { CompiledTriton, CompiledTritonKernel } from './compiled-triton.js'

type Made = Pick<CompiledTriton, 'file' | 'kernels'>

/** Words that JavaScript has for itself, and Python does not; and those that these texts import. */
const RESERVED =
  /^(?:arguments|await|case|catch|const|debugger|default|delete|do|enum|eval|export|extends|function|implements|instanceof|interface|let|new|null|package|private|protected|public|static|super|switch|this|throw|typeof|var|void|yield|defineTritonKernel|TritonKernel)$/

export const freeName = (name: string): string => (RESERVED.test(name) ? `${name}_` : name)

const head = (file: string): string => `// Made of ${basename(file)} by cuda-streams. Changes here are lost.`

const valueText = (value: TritonMeta[string] | undefined): string =>
  typeof value === 'string' ? `'${value.replace(/[\\']/g, '\\$&')}'` : JSON.stringify(value ?? null)

const quoted = (text: unknown): string => `'${text}'`

/** JavaScript that exports the kernels. */
export function tritonModuleText({ file, kernels }: Made): string {
  return [
    head(file),
    "import { defineTritonKernel } from 'cuda-streams/triton'",
    '',
    ...kernels.map(definitionText),
    '',
  ].join('\n')
}

function definitionText({ name, signature, parameterNames, configs, key }: CompiledTritonKernel): string {
  const texts = configs.map(({ meta, variants }) => {
    const values = Object.entries(meta).map(([name, value]) => `${name}: ${valueText(value)}`)
    return `    { meta: { ${values.join(', ')} }, variants: [\n${variants.map(variantText).join('')}    ] },\n`
  })
  const keyText = key.length === 0 ? '' : `  key: [${key.join(', ')}],\n`
  const names = parameterNames.length === 0 ? '' : `  parameterNames: [${parameterNames.map(quoted).join(', ')}],\n`
  return `export const ${name} = defineTritonKernel({
  name: '${name}',
  signature: [${signature.map(quoted).join(', ')}],
${names}${keyText}  configs: [
${texts.join('')}  ],
})`
}

function variantText({ ptx, ...more }: TritonVariant): string {
  const escaped = ptx.replace(/[\\`]|\$\{/g, '\\$&')
  const others = Object.entries(more).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}: ${Array.isArray(value) ? `[${value.join(', ')}]` : value}`],
  )
  return `      { ${others.join(', ')}, ptx: \`\n${escaped}\n\` },\n`
}

/** TypeScript's declarations of them: a launch shows the parameters by the names that they have in the source. */
export function tritonDeclarationText({ file, kernels }: Made): string {
  const exports = kernels.map((kernel) => {
    const parameters = kernel.signature.map(
      (type, index) => `${freeName(kernel.parameterNames[index] ?? '')}: ${quoted(type)}`,
    )
    return `${commentText(kernel)}${kernelText(kernel.name, 'TritonKernel', parameters, metaType(kernel))}\n`
  })
  return [head(file), "import type { TritonKernel } from 'cuda-streams/triton'", '', exports.join('\n')].join('\n')
}

/** The type of the configurations: each constant is one of the values that it has in them. */
function metaType({ configs }: CompiledTritonKernel): string {
  const names = [...new Set(configs.flatMap(({ meta }) => Object.keys(meta)))]
  const members = names.map((name) => {
    const values = [...new Set(configs.map(({ meta }) => valueText(meta[name])))]
    return `readonly ${name}: ${values.join(' | ')}`
  })
  return `{ ${members.join('; ')} }`
}
