/** Light or dark, as the system has it or as the reader wants it. */
import { COLOURS, type ColourName } from '../colours.js'

export type Colours = (name: ColourName) => string

const THEMES = ['auto', 'light', 'dark'] as const
type Theme = (typeof THEMES)[number]

/** The button goes round: as the system has it, light, dark. The style sheet gets the colours as variables. */
export function themeButton(button: HTMLButtonElement, changed: (colours: Colours) => void): void {
  const system = matchMedia('(prefers-color-scheme: dark)')
  let theme: Theme = 'auto'
  const apply = (): void => {
    const isDark = theme === 'dark' || (theme === 'auto' && system.matches)
    const { style } = document.documentElement
    style.colorScheme = isDark ? 'dark' : 'light'
    for (const [name, pair] of Object.entries(COLOURS)) style.setProperty(`--${name}`, pair[isDark ? 1 : 0])
    button.textContent = { auto: '◐', light: '☀', dark: '☾' }[theme]
    const label = `Colours: ${theme === 'auto' ? 'as the system has them' : theme}`
    button.title = label
    button.setAttribute('aria-label', label)
    changed((name) => COLOURS[name][isDark ? 1 : 0])
  }
  button.addEventListener('click', () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? 'auto'
    apply()
  })
  system.addEventListener('change', apply)
  apply()
}
