/** The texts that stand for a file of CUDA C++ in a project of JavaScript or TypeScript. */
import { basename } from 'node:path'
import type { CompiledCu, CuKernel } from './compiled-cu.js'

type Made = Pick<CompiledCu, 'file' | 'ptx' | 'kernels'>

const quoted = (text: string): string => `'${text}'`

/** JavaScript that exports the kernels. */
export function moduleText({ file, ptx, kernels }: Made): string {
  const exports = kernels.map(
    ({ name, signature }) =>
      `export const ${name} = defineKernel({ name: '${name}', ptx, signature: [${signature.map(quoted).join(', ')}] })`,
  )
  const escaped = ptx.trim().replace(/[\\`]|\$\{/g, '\\$&')
  return [
    `// Made of ${basename(file)} by cuda-streams. Changes here are lost.`,
    "import { defineKernel } from 'cuda-streams'",
    '',
    `const ptx = \`\n${escaped}\n\``,
    '',
    ...exports,
    '',
  ].join('\n')
}

/** TypeScript's declarations of them: a launch shows the parameters by the names that they have in the source. */
export function declarationText({ file, kernels }: Made): string {
  const exports = kernels.map((kernel) => {
    const parameters = kernel.signature.map((type, index) => `${kernel.parameterNames[index]}: ${quoted(type)}`)
    return `${comment(kernel)}export declare const ${kernel.name}: DefinedKernel<readonly [${parameters.join(', ')}]>\n`
  })
  return [
    `// Made of ${basename(file)} by cuda-streams. Changes here are lost.`,
    "import type { DefinedKernel } from 'cuda-streams'",
    '',
    exports.join('\n'),
  ].join('\n')
}

function comment({ comment: text, file, line }: CuKernel): string {
  const place = `${basename(file)}, line ${line}`
  const lines = [...(text === '' ? [] : text.split('\n')), place].map((each) => each.replaceAll('*/', '*\\/').trimEnd())
  return lines.length === 1
    ? `/** ${place} */\n`
    : `/**\n${lines.map((each) => ` * ${each}`.trimEnd()).join('\n')}\n */\n`
}
