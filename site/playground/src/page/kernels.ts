/** The kernels that a program imports: CUDA C++, with the lines that the run named, and the PTX that runs here. */
import { byId, element } from '../../../../src/timeline/page/panel.js'
import { KERNEL_FILES, type KernelFile } from '../../lessons/kernel-files.js'

/** `said`: what the run said, which may name lines. `rewrite` gets the program with PTX in place of an import. */
export function showKernels(code: string, said: readonly string[], rewrite: (code: string) => void): void {
  const imported = KERNEL_FILES.filter(({ name }) => code.includes(`'./${name}'`))
  byId('kernels', HTMLElement).hidden = imported.length === 0
  byId('kernel-files', HTMLElement).replaceChildren(...imported.map((file) => boxOf(file, code, said, rewrite)))
}

function boxOf(file: KernelFile, code: string, said: readonly string[], rewrite: (code: string) => void): HTMLElement {
  const { name, source, ptx } = file
  const named = new Set(said.flatMap((text) => linesNamed(name, text)))
  const lines = source
    .trimEnd()
    .split('\n')
    .map((text, at) => element('span', { className: named.has(at + 1) ? 'marked second' : '' }, `${text}\n`))
  const box = element(
    'div',
    { className: 'kernel-file' },
    element('h3', {}, element('code', {}, name)),
    scrolling(`${name}, in CUDA C++`, 'numbered', ...lines),
  )
  const inProgram = withPtx(code, file)
  if (inProgram !== undefined) {
    box.append(
      element(
        'button',
        { type: 'button', className: 'button into-program', onclick: () => rewrite(inProgram) },
        'Put its PTX into the program',
      ),
    )
  }
  box.append(element('details', {}, element('summary', {}, 'Its PTX'), scrolling(`${name}, as PTX`, 'ptx', ptx)))
  return box
}

/** A keyboard must reach what scrolls. */
function scrolling(label: string, className: string, ...content: (Node | string)[]): HTMLElement {
  const box = element('pre', { tabIndex: 0, className, ariaLabel: label }, ...content)
  box.setAttribute('role', 'region')
  return box
}

function linesNamed(name: string, text: string): readonly number[] {
  const pattern = new RegExp(`${name.replaceAll('.', '\\.')}:(\\d+)`, 'g')
  return [...text.matchAll(pattern)].map(([, line]) => Number(line))
}

/** The program with the PTX as a text, so that it can be changed; undefined if the import is written in another way. */
function withPtx(code: string, { name, ptx }: KernelFile): string | undefined {
  const line = `import { ptx } from './${name}'`
  const at = code.indexOf(line)
  if (at < 0) return undefined
  return `${code.slice(0, at)}const ptx = \`${ptx}\`${code.slice(at + line.length)}`
}
