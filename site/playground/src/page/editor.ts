/** Editors: of TypeScript with the library's declarations, and of plain text; and the lines that something is to be said of. */
import {
  autocompletion,
  type Completion,
  type CompletionContext,
  closeBrackets,
  completionKeymap,
} from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands'
import { javascript } from '@codemirror/lang-javascript'
import { bracketMatching, indentOnInput, syntaxHighlighting } from '@codemirror/language'
import { lintGutter, lintKeymap, setDiagnostics } from '@codemirror/lint'
import { EditorState, type Extension, Prec, StateEffect, StateField } from '@codemirror/state'
import {
  Decoration,
  type DecorationSet,
  drawSelection,
  EditorView,
  highlightActiveLine,
  hoverTooltip,
  keymap,
  lineNumbers,
  showTooltip,
  type Tooltip,
  ViewPlugin,
  WidgetType,
} from '@codemirror/view'
import { classHighlighter } from '@lezer/highlight'
import type { Detail, Signature } from '../types/messages.js'
import type { Types } from './types.js'

export interface Mark {
  /** From 1. */
  readonly line: number
  readonly kind: 'first' | 'second' | 'step'
}

/** What is said beside a line. */
export interface Note {
  /** From 1. */
  readonly line: number
  readonly text: string
  /** Whether nothing there could be better. */
  readonly isBest: boolean
}

/** A note behind the text of its line. It is said elsewhere in the page, too, and is no part of the text: a style sheet puts its letters there. */
class NoteWidget extends WidgetType {
  constructor(private readonly note: Note) {
    super()
  }

  override eq({ note }: NoteWidget): boolean {
    return note.text === this.note.text && note.isBest === this.note.isBest
  }

  override toDOM(): HTMLElement {
    const dom = document.createElement('span')
    dom.className = this.note.isBest ? 'note best' : 'note'
    dom.dataset['text'] = this.note.text
    dom.ariaHidden = 'true'
    return dom
  }
}

const setMarks = StateEffect.define<{ readonly marks: readonly Mark[]; readonly notes: readonly Note[] }>()
const marks = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(decorations, { changes, effects, state }) {
    let now = decorations.map(changes)
    for (const effect of effects) {
      if (!effect.is(setMarks)) continue
      const isThere = ({ line }: Mark | Note): boolean => line >= 1 && line <= state.doc.lines
      const marked = effect.value.marks.filter(isThere).map(({ line, kind }) => {
        return Decoration.line({ class: `marked ${kind}` }).range(state.doc.line(line).from)
      })
      const noted = effect.value.notes.filter(isThere).map((note) => {
        return Decoration.widget({ widget: new NoteWidget(note), side: 1 }).range(state.doc.line(note.line).to)
      })
      now = Decoration.set([...marked, ...noted], true)
    }
    return now
  },
  provide: (field) => EditorView.decorations.from(field),
})

const NO_MARKS = setMarks.of({ marks: [], notes: [] })

export interface Editor {
  readonly text: string
  /** Replaces all of it; one step of the history. */
  write(text: string): void
  mark(marks: readonly Mark[], notes?: readonly Note[]): void
  show(line: number): void
  focus(): void
}

export interface EditorOptions {
  /** What a screen reader says. */
  readonly label: string
  /** What this kind of text has besides. */
  readonly language?: Extension
}

export function openEditor(
  parent: HTMLElement,
  { label, language = [] }: EditorOptions,
  changed: () => void,
  run: () => void,
): Editor {
  const view = new EditorView({
    parent,
    state: EditorState.create({
      extensions: [
        lineNumbers(),
        history(),
        drawSelection(),
        highlightActiveLine(),
        bracketMatching(),
        closeBrackets(),
        indentOnInput(),
        marks,
        language,
        keymap.of([
          {
            key: 'Mod-Enter',
            run: () => {
              run()
              return true
            },
          },
          ...completionKeymap,
          ...lintKeymap,
          ...historyKeymap,
          ...defaultKeymap,
        ]),
        // Who scrolls by keyboard can focus it without the attribute, too, but axe-core does not know that.
        EditorView.contentAttributes.of({ 'aria-label': label, tabindex: '0' }),
        EditorView.updateListener.of(({ docChanged }) => {
          if (docChanged) changed()
        }),
      ],
    }),
  })
  return {
    get text() {
      return view.state.doc.toString()
    },
    write(text) {
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text }, effects: NO_MARKS })
    },
    mark: (marks, notes = []) => view.dispatch({ effects: setMarks.of({ marks, notes }) }),
    show(line) {
      const { doc } = view.state
      if (line < 1 || line > doc.lines) return
      view.dispatch({ effects: EditorView.scrollIntoView(doc.line(line).from, { y: 'center' }) })
    },
    focus: () => view.focus(),
  }
}

const setSignature = StateEffect.define<Signature | undefined>()
/** The call that is being written, above it. */
const signature = StateField.define<Signature | undefined>({
  create: () => undefined,
  update(shown, { changes, effects }) {
    for (const effect of effects) if (effect.is(setSignature)) return effect.value
    return shown === undefined || changes.empty ? shown : { ...shown, from: changes.mapPos(shown.from) }
  },
  provide: (field) => showTooltip.from(field, (shown) => (shown === undefined ? null : tooltipOf(shown))),
})

function tooltipOf({ from, before, parameters, after, at, documentation }: Signature): Tooltip {
  const dom = document.createElement('div')
  dom.className = 'about signature'
  const code = document.createElement('code')
  const parts = parameters.map((text, nth) => {
    const part = document.createElement(nth === at ? 'strong' : 'span')
    part.textContent = text
    return part
  })
  code.append(before, ...parts, after)
  dom.append(code, inLines(documentation))
  return { pos: from, above: true, create: () => ({ dom }) }
}

function aboutOf({ text, documentation }: Detail): HTMLElement {
  const dom = document.createElement('div')
  dom.className = 'about'
  const head = document.createElement('code')
  head.textContent = text
  dom.append(head, inLines(documentation))
  return dom
}

/** Where a doc comment goes on in its next line, a sentence goes on: paragraphs and items of lists remain. */
const inLines = (documentation: string): string => documentation.replace(/([^\n])\n(?![\n\s]|[-*] )/g, '$1 ')

/** TypeScript, with what the types say of it. */
export function typeScript(types: Types): Extension {
  let asked = 0
  /** Shows the call that the cursor is in while somebody writes there, and no longer when it leaves. */
  const help = async (view: EditorView): Promise<void> => {
    asked += 1
    const nth = asked
    const { doc, selection } = view.state
    const found = await types.signature(doc.toString(), selection.main.head)
    if (nth !== asked || view.state.doc !== doc) return
    view.dispatch({ effects: setSignature.of(view.hasFocus ? found : undefined) })
  }
  /** Other uses of the key are not taken away: Escape closes the completions, too. */
  const hideHelp = (view: EditorView): boolean => {
    asked += 1
    if (view.state.field(signature) !== undefined) view.dispatch({ effects: setSignature.of(undefined) })
    return false
  }
  let timer = 0
  const check = (view: EditorView): void => {
    clearTimeout(timer)
    timer = window.setTimeout(async () => {
      const { doc } = view.state
      const found = await types.check(doc.toString())
      if (found !== undefined && view.state.doc === doc) view.dispatch(setDiagnostics(view.state, [...found]))
    }, 300)
  }
  return [
    signature,
    // Before the completions, which keep the key to themselves while an answer of theirs is on its way.
    Prec.highest(keymap.of([{ key: 'Escape', run: hideHelp }])),
    javascript({ typescript: true }),
    syntaxHighlighting(classHighlighter),
    lintGutter(),
    autocompletion({
      override: [
        async (context: CompletionContext) => {
          const word = context.matchBefore(/[\w$]+/)
          if (word === null && !context.explicit && context.matchBefore(/[.'"/]/) === null) return null
          const code = context.state.doc.toString()
          const info = async ({ label }: Completion): Promise<Node | null> => {
            const detail = await types.detail(code, context.pos, label)
            return detail === undefined ? null : aboutOf(detail)
          }
          const options = (await types.complete(code, context.pos)).map((one) => ({ ...one, info }))
          return options.length === 0 ? null : { from: word?.from ?? context.pos, options, validFor: /^[\w$]*$/ }
        },
      ],
    }),
    hoverTooltip(async ({ state }, pos) => {
      const about = await types.describe(state.doc.toString(), pos)
      if (about === undefined) return null
      return { pos: about.from, end: about.to, create: () => ({ dom: aboutOf(about) }) }
    }),
    // The types are a large file: it is asked for when somebody begins to write.
    EditorView.updateListener.of(({ docChanged, focusChanged, selectionSet, state, view, transactions }) => {
      if (view.hasFocus && (docChanged || focusChanged)) check(view)
      const isTyped = transactions.some((one) => one.isUserEvent('input') || one.isUserEvent('delete'))
      if (isTyped || (selectionSet && state.field(signature) !== undefined)) void help(view)
      else if (focusChanged && !view.hasFocus) queueMicrotask(() => hideHelp(view))
    }),
    ViewPlugin.define((view) => {
      types.changed = () => check(view)
      return {}
    }),
  ]
}
