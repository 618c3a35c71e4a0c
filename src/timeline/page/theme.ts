/** Colours, read from the style sheet so that light and dark are said in one place. */
import { KERNEL_COLOURS } from '../kernel-colours.js'

/** The colours of the kinds, in their order. */
const KIND_COLOURS = 'quiet kernel-0 copy fill quiet quiet quiet wait host graph quiet fault blocked blocked'

export type Colours = ReturnType<typeof readColours>

export function readColours() {
  // Only of an element's own colour does the browser say which of the two it is.
  const probe = document.createElement('i')
  document.body.append(probe)
  const of = (name: string): string => {
    probe.style.color = `var(--${name})`
    return getComputedStyle(probe).color
  }
  const colours = {
    background: of('background'),
    band: of('band'),
    line: of('line'),
    text: of('text'),
    faint: of('faint'),
    wait: of('wait'),
    critical: of('critical'),
    arrow: of('arrow'),
    accent: of('accent'),
    gap: of('gap'),
    onBar: of('on-bar'),
    bars: KIND_COLOURS.split(' ').map(of),
    kernels: Array.from({ length: KERNEL_COLOURS }, (_, at) => of(`kernel-${at}`)),
  }
  probe.remove()
  return colours
}

const THEMES = ['auto', 'light', 'dark'] as const
type Theme = (typeof THEMES)[number]

/** The button goes round: as the system has it, light, dark. */
export function themeButton(button: HTMLButtonElement, changed: () => void): void {
  let theme: Theme = 'auto'
  const apply = (): void => {
    if (theme === 'auto') delete document.documentElement.dataset['theme']
    else document.documentElement.dataset['theme'] = theme
    button.textContent = { auto: '◐', light: '☀', dark: '☾' }[theme]
    const label = `Colours: ${theme === 'auto' ? 'as the system has them' : theme}`
    button.title = label
    button.setAttribute('aria-label', label)
    changed()
  }
  button.addEventListener('click', () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? 'auto'
    apply()
  })
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', changed)
  apply()
}
