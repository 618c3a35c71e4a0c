/**
 * The kernels that a program imports, each in a tab of the editor, or below the program: CUDA C++, which was compiled when the page was built,
 * with the lines that the run named; or PTX that is typed there.
 */
import type { LineProfile } from 'cuda-streams/sim'
import { byLine, statementsOf } from '../../../../src/tools/timeline/page/kernel-numbers.js'
import { byId, element } from '../../../../src/tools/timeline/page/panel.js'
import { PTX, SOURCES } from '../../lessons/kernel-files.js'
import type { Declared, KernelTexts } from '../run/messages.js'
import { Declarations } from './declarations.js'
import { type Editor, type Note, openEditor } from './editor.js'

/** Thrown where a kernel cannot be run; `file` is its tab. */
export class NoKernel extends Error {
  constructor(
    readonly file: string,
    message: string,
  ) {
    super(message)
  }
}

const PROGRAM = 'program.ts'
const IMPORT = /\bfrom\s+['"]\.\/([\w.-]+\.cu)['"]/g

/** PTX begins with its version, behind comments. */
const isPtx = (text: string): boolean => /^(?:\s|\/\/.*\n|\/\*[\s\S]*?\*\/)*\.version\s/.test(text)

const wayOut = (name: string): string =>
  `write PTX here, which 'npx cuda-streams compile ${name} --ptx' or 'nvcc --ptx' makes`

export class Kernels {
  readonly #editor: Editor
  readonly #changed = new Map<string, string>()
  #names: readonly string[] = []
  #shown = PROGRAM
  #said: readonly string[] = []
  #lines: readonly LineProfile[] = []
  #declared: Readonly<Record<string, Declared>> = {}
  readonly #declarations: Declarations

  constructor(
    /** The program stays in sight, and has no tab. */
    private readonly isBelow: boolean,
    private readonly edited: () => void,
    run: () => void,
    /** Gets the declarations of PTX that is typed, by file. */
    declare: (files: Readonly<Record<string, string>>) => void,
  ) {
    this.#declarations = new Declarations((files) => {
      this.#declared = files
      declare(
        Object.fromEntries(
          Object.entries(files).flatMap(([name, one]) => ('declaration' in one ? [[name, one.declaration]] : [])),
        ),
      )
      this.#showState()
    })
    this.#editor = openEditor(byId('kernel-editor', HTMLElement), { label: 'The kernel' }, () => this.#take(), run)
    byId('kernel-ptx', HTMLButtonElement).addEventListener('click', () => this.#write(PTX[this.#shown] ?? ''))
    byId('kernel-back', HTMLButtonElement).addEventListener('click', () => this.#write(SOURCES[this.#shown] ?? ''))
  }

  get areImported(): boolean {
    return this.#names.length > 0
  }

  /** Those that are not as the page was built, of the files that the program imports. */
  get texts(): KernelTexts {
    return Object.fromEntries([...this.#changed].filter(([name]) => this.#names.includes(name)))
  }

  /**
   * The PTX that runs in place of that which the page was built with.
   * @throws NoKernel for CUDA C++, which no page can compile
   */
  get ptx(): KernelTexts {
    const { texts } = this
    for (const name of this.#names) {
      const text = texts[name]
      if (text === undefined && SOURCES[name] === undefined)
        throw new NoKernel(name, `${name} has no code, and a page cannot compile CUDA C++: ${wayOut(name)}`)
      if (text === undefined || isPtx(text)) continue
      throw new NoKernel(name, `${name} was changed, and a page cannot compile CUDA C++: ${wayOut(name)}`)
    }
    return texts
  }

  /** Other texts than those that the page was built with. */
  open(texts: KernelTexts): void {
    this.#changed.clear()
    for (const [name, text] of Object.entries(texts)) this.#changed.set(name, text)
    this.#declare()
    this.show(this.#first)
  }

  /** Has a tab for each file that this program imports. */
  follow(code: string): void {
    const names = [...new Set([...code.matchAll(IMPORT)].map(([, name = '']) => name))]
    if (names.join() === this.#names.join()) return
    this.#names = names
    this.show(names.includes(this.#shown) ? this.#shown : this.#first)
  }

  get #first(): string {
    return (this.isBelow ? this.#names[0] : undefined) ?? PROGRAM
  }

  /** What the run said, which may name lines, and what was counted of lines. */
  mark(said: readonly string[], lines: readonly LineProfile[]): void {
    this.#said = said
    this.#lines = lines
    this.#showTabs()
    this.#showMarks()
  }

  show(name: string): void {
    this.#shown = name
    const isKernel = name !== PROGRAM
    byId('program', HTMLElement).hidden = isKernel && !this.isBelow
    byId('kernel', HTMLElement).hidden = !isKernel
    if (isKernel) this.#editor.write(this.#textOf(name))
    this.#showTabs()
    this.#showState()
    this.#showMarks()
  }

  showLine(name: string, line: number): void {
    this.show(name)
    this.#editor.show(line)
  }

  /** Has the kernels of typed PTX read. */
  #declare(): void {
    this.#declarations.ask(Object.fromEntries([...this.#changed].filter(([, text]) => isPtx(text))))
  }

  #textOf(name: string): string {
    return this.#changed.get(name) ?? SOURCES[name] ?? ''
  }

  #write(text: string): void {
    this.#editor.write(text)
    this.#editor.focus()
  }

  /** The editor's text has changed. */
  #take(): void {
    if (this.#shown === PROGRAM || this.#editor.text === this.#textOf(this.#shown)) return
    if (this.#editor.text === (SOURCES[this.#shown] ?? '')) this.#changed.delete(this.#shown)
    else this.#changed.set(this.#shown, this.#editor.text)
    this.#declare()
    this.#showState()
    this.edited()
  }

  #showTabs(): void {
    const tabs = [...(this.isBelow ? [] : [PROGRAM]), ...this.#names].map((name) => {
      const isNamed = this.#linesOf(name).length > 0
      const mark = isNamed ? [element('span', { className: 'named' }, ' ●'), hidden(', which the run named')] : []
      const tab = element('button', { type: 'button', className: 'tab', onclick: () => this.show(name) }, name, ...mark)
      tab.setAttribute('role', 'tab')
      tab.setAttribute('aria-controls', name === PROGRAM ? 'program' : 'kernel')
      tab.ariaSelected = `${name === this.#shown}`
      return tab
    })
    byId('files', HTMLElement).replaceChildren(...tabs)
  }

  #showState(): void {
    const name = this.#shown
    const built = SOURCES[name]
    const text = this.#textOf(name)
    const isOwn = this.#changed.has(name)
    const runs = isPtx(text)
      ? ['PTX, which runs on the simulator in this page.', saidOf(this.#declared[name])].join(' ').trim()
      : built !== undefined && !isOwn
        ? 'CUDA C++, compiled to PTX when this page was built.'
        : `A page cannot compile CUDA C++: ${wayOut(name)}.`
    byId('kernel-said', HTMLElement).textContent = runs
    byId('kernel-ptx', HTMLButtonElement).hidden = built === undefined || isPtx(text)
    byId('kernel-back', HTMLButtonElement).hidden = built === undefined || !isOwn
  }

  #showMarks(): void {
    const marks = this.#linesOf(this.#shown).map((line) => ({ line, kind: 'second' }) as const)
    this.#editor.mark(marks, this.#notesOf(this.#shown))
  }

  /** What was counted of the lines of the CUDA C++, beside these. */
  #notesOf(name: string): readonly Note[] {
    if (name === PROGRAM || isPtx(this.#textOf(name))) return []
    return byLine(this.#lines.filter(({ file }) => file === name)).flatMap(({ line, counts }) =>
      statementsOf(counts).map(({ note, excess }) => ({ line, text: note, isBest: excess === 0 })),
    )
  }

  /** The lines of the CUDA C++ that the run named. */
  #linesOf(name: string): readonly number[] {
    if (name === PROGRAM || isPtx(this.#textOf(name))) return []
    const pattern = new RegExp(`${name.replaceAll('.', '\\.')}:(\\d+)`, 'g')
    return this.#said.flatMap((text) => [...text.matchAll(pattern)].map(([, line]) => Number(line)))
  }
}

/** What is known of typed PTX. */
function saidOf(declared: Declared | undefined): string {
  if (declared === undefined) return ''
  return 'problem' in declared ? `It cannot be read: ${declared.problem}` : declared.said
}

const hidden = (text: string): HTMLElement => element('span', { className: 'hidden' }, text)
