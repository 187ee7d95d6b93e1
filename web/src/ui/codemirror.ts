// One CodeMirror editor of a cell: Python, completion and help from the kernel, and the notebook's keys. It is
// told of changes from outside (another tab) and tells of its own.
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, startCompletion, type CompletionContext, type CompletionResult } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, indentLess, indentMore } from '@codemirror/commands';
import { python } from '@codemirror/lang-python';
import { bracketMatching, HighlightStyle, indentUnit, syntaxHighlighting } from '@codemirror/language';
import { Compartment, EditorState, Prec, StateEffect, StateField } from '@codemirror/state';
import { Decoration, EditorView, keymap, placeholder, showTooltip, type Command, type DecorationSet, type Tooltip } from '@codemirror/view';
import { tags as t } from '@lezer/highlight';
import type { KernelQuestions } from '../net/kernel';
import { stripAnsi } from '../render/ansi';

export interface EditorHooks {
  change: (text: string) => void;
  focus: () => void;
  run: (then: 'stay' | 'next' | 'insert') => void;
  leave: () => void;
  edge: (way: -1 | 1) => boolean;
}

export interface EditorOptions {
  parent: HTMLElement;
  text: string;
  python: boolean;
  label: string;
  hint: string;
  questions: KernelQuestions | null;
  hooks: EditorHooks;
}

const highlight = HighlightStyle.define([
  { tag: [t.keyword, t.operatorKeyword, t.modifier], class: 'tok-keyword' },
  { tag: [t.string, t.special(t.string)], class: 'tok-string' },
  { tag: [t.number, t.bool, t.null], class: 'tok-number' },
  { tag: [t.comment, t.docString], class: 'tok-comment' },
  { tag: [t.function(t.variableName), t.function(t.propertyName)], class: 'tok-function' },
  { tag: [t.className, t.definition(t.className), t.meta], class: 'tok-class' },
]);

const points = (text: string): number => [...text].length;
const units = (text: string, n: number): number => [...text].slice(0, n).join('').length;

function kernelCompletion(questions: KernelQuestions) {
  return async (context: CompletionContext): Promise<CompletionResult | null> => {
    const dot = context.matchBefore(/\.\w*$/);
    if (!context.explicit && !dot) return null;
    const code = context.state.doc.toString();
    const reply = await questions.complete(code, points(code.slice(0, context.pos)));
    if (!reply?.matches.length || context.aborted) return null;
    const types = reply.metadata?._jupyter_types_experimental ?? [];
    const from = units(code, reply.cursor_start);
    const options = reply.matches.slice(0, 300).map((label, i) => ({ label, type: types[i]?.type?.replace('instance', 'variable') }));
    return { from, options, validFor: /^\w*$/ };
  };
}

const setHelp = StateEffect.define<Tooltip | null>();
const helpField = StateField.define<Tooltip | null>({
  create: () => null,
  update(value, tr) {
    for (const e of tr.effects) if (e.is(setHelp)) return e.value;
    return tr.docChanged || tr.selection ? null : value;
  },
  provide: f => showTooltip.from(f),
});

function inspectCommand(questions: KernelQuestions): Command {
  return view => {
    const pos = view.state.selection.main.head;
    const code = view.state.doc.toString();
    void questions.inspect(code, points(code.slice(0, pos))).then(text => {
      const create = (): { dom: HTMLElement } => {
        const dom = document.createElement('pre');
        dom.className = 'help-tip';
        dom.setAttribute('role', 'status');
        dom.textContent = text ? stripAnsi(text).slice(0, 8000) : 'The kernel knows nothing about this.';
        return { dom };
      };
      view.dispatch({ effects: setHelp.of({ pos, above: true, create }) });
    });
    return true;
  };
}

const setErrorLine = StateEffect.define<number | null>();
const errorField = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(value, tr) {
    for (const e of tr.effects) {
      if (!e.is(setErrorLine)) continue;
      if (!e.value || e.value > tr.state.doc.lines) return Decoration.none;
      return Decoration.set([Decoration.line({ class: 'error-line' }).range(tr.state.doc.line(e.value).from)]);
    }
    return value.map(tr.changes);
  },
  provide: f => EditorView.decorations.from(f),
});

/** After a word or a dot: complete. Elsewhere: indent. */
const tab: Command = view => {
  const { main } = view.state.selection;
  const before = view.state.sliceDoc(Math.max(0, main.head - 1), main.head);
  return main.empty && /[\w.]/.test(before) ? startCompletion(view) : indentMore(view);
};

function keys(o: EditorOptions) {
  const { hooks, questions } = o;
  const run = (then: 'stay' | 'next' | 'insert') => (): boolean => (hooks.run(then), true);
  return Prec.high(keymap.of([
    { key: 'Shift-Enter', run: run('next') },
    { key: 'Mod-Enter', run: run('stay') },
    { key: 'Ctrl-Enter', run: run('stay') },
    { key: 'Alt-Enter', run: run('insert') },
    ...(questions ? [{ key: 'Tab', run: tab, shift: inspectCommand(questions) }] : [{ key: 'Tab', run: indentMore, shift: indentLess }]),
    { key: 'ArrowUp', run: view => view.state.selection.main.head <= view.state.doc.line(1).to && view.state.selection.main.empty && hooks.edge(-1) },
    { key: 'ArrowDown', run: view => view.state.selection.main.head >= view.state.doc.line(view.state.doc.lines).from && view.state.selection.main.empty && hooks.edge(1) },
  ]));
}

/** Below the completion's own use of Escape. */
const escape = (hooks: EditorHooks) => Prec.lowest(keymap.of([{ key: 'Escape', run: () => (hooks.leave(), true) }]));

export class CellEditor {
  readonly view: EditorView;
  private readonly language = new Compartment();
  private quiet = false;

  constructor(options: EditorOptions) {
    const { hooks } = options;
    this.view = new EditorView({
      parent: options.parent,
      state: EditorState.create({
        doc: options.text,
        extensions: [
          keys(options),
          history(),
          indentUnit.of('    '),
          bracketMatching(),
          closeBrackets(),
          syntaxHighlighting(highlight),
          this.language.of(options.python ? python() : []),
          options.python ? autocompletion({ override: options.questions ? [kernelCompletion(options.questions)] : [], icons: false }) : [],
          placeholder(options.hint),
          helpField,
          errorField,
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ 'aria-label': options.label, spellcheck: 'false', autocapitalize: 'off' }),
          keymap.of([...closeBracketsKeymap, ...completionKeymap, ...historyKeymap, ...defaultKeymap]),
          escape(hooks),
          EditorView.updateListener.of(u => {
            if (u.docChanged && !this.quiet) hooks.change(u.state.doc.toString());
            if (u.focusChanged && u.view.hasFocus) hooks.focus();
          }),
        ],
      }),
    });
  }

  /** From outside: keeps the cursor where it is, as far as that place is still there. */
  setText(text: string): void {
    const old = this.view.state.doc.toString();
    if (old === text) return;
    let start = 0;
    while (start < old.length && old[start] === text[start]) start += 1;
    let end = 0;
    while (end < old.length - start && end < text.length - start && old[old.length - 1 - end] === text[text.length - 1 - end]) end += 1;
    this.quiet = true;
    this.view.dispatch({ changes: { from: start, to: old.length - end, insert: text.slice(start, text.length - end) } });
    this.quiet = false;
  }

  markLine(line: number | null): void {
    this.view.dispatch({ effects: setErrorLine.of(line) });
  }

  focus(at?: 'start' | 'end'): void {
    if (at) this.view.dispatch({ selection: { anchor: at === 'end' ? this.view.state.doc.length : 0 } });
    this.view.focus();
  }

  destroy(): void {
    this.view.destroy();
  }
}
