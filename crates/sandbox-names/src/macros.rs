//! Methods that set or return one field each, for the crates of this workspace.

/// Defines methods of a builder: `name(value: Type) = new;` sets the field `name`, with
/// `=> field` behind the arguments another one.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    ($($(#[$meta:meta])* $name:ident($($value:ident: $type:ty),+) $(=> $($field:ident).+)? = $new:expr;)+) => {$(
        $(#[$meta])*
        #[must_use]
        pub fn $name(mut self, $($value: $type),+) -> Self {
            $crate::setters!(@field self $name $($($field).+)?) = $new;
            self
        }
    )+};
    (@field $self:ident $name:ident) => { $self.$name };
    (@field $self:ident $name:ident $($field:ident).+) => { $self.$($field).+ };
}

/// Defines methods that return a field: `pub name: &str = &name;` lends the field `name`,
/// `pub mode: Mode = mode;` copies it, `pub host: Option<&Path> = host.as_deref();` calls a method
/// of it.
#[doc(hidden)]
#[macro_export]
macro_rules! getters {
    () => {};
    ($(#[$meta:meta])* $vis:vis $name:ident: $type:ty = &$($field:tt).+; $($more:tt)*) => {
        $(#[$meta])*
        #[must_use]
        $vis fn $name(&self) -> $type {
            &self.$($field).+
        }
        $crate::getters! { $($more)* }
    };
    ($(#[$meta:meta])* $vis:vis $name:ident: $type:ty = $field:tt $(($($own:tt)*))? $(.$part:ident $(($($none:tt)*))?)*; $($more:tt)*) => {
        $(#[$meta])*
        #[must_use]
        $vis fn $name(&self) -> $type {
            self.$field $(($($own)*))? $(.$part $(($($none)*))?)*
        }
        $crate::getters! { $($more)* }
    };
}

/// Defines `Display` by a text: `display!(Mode = as_str());` calls a method, `display!(Name = &0);`
/// lends a field, and `display!(Mode = pad as_str());` heeds a width.
#[doc(hidden)]
#[macro_export]
macro_rules! display {
    ($type:ty = pad $($text:tt)+) => {
        impl ::core::fmt::Display for $type {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.pad(self.$($text)+)
            }
        }
    };
    ($type:ty = &$($text:tt)+) => {
        impl ::core::fmt::Display for $type {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.write_str(&self.$($text)+)
            }
        }
    };
    ($type:ty = $($text:tt)+) => {
        impl ::core::fmt::Display for $type {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.write_str(self.$($text)+)
            }
        }
    };
}

/// Defines `Debug` with some of the fields: `debug!(Mount { target, mode = inner.mode });`.
#[doc(hidden)]
#[macro_export]
macro_rules! debug {
    ($type:ident { $($name:ident $(= $($part:ident).+ $(($($none:tt)*))?)?),* }) => {
        impl ::core::fmt::Debug for $type {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.debug_struct(stringify!($type))
                    $(.field(stringify!($name), &$crate::debug!(@ self $name $($($part).+ $(($($none)*))?)?)))*
                    .finish_non_exhaustive()
            }
        }
    };
    (@ $self:ident $name:ident) => { $self.$name };
    (@ $self:ident $name:ident $($path:tt)+) => { $self.$($path)+ };
}

/// Defines an enum whose variants have a word each, and the method that returns it.
#[doc(hidden)]
#[macro_export]
macro_rules! word_enum {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)+ }
        $(#[$method_meta:meta])*
        $method_vis:vis fn $method:ident
    ) => {
        $(#[$meta])*
        $vis enum $name {
            $($(#[$variant_meta])* $variant,)+
        }

        impl $name {
            #[allow(dead_code, reason = "not every list of words is searched")]
            const VARIANTS: &[$name] = &[$($name::$variant),+];

            $(#[$method_meta])*
            #[must_use]
            $method_vis const fn $method(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)+
                }
            }
        }
    };
}
